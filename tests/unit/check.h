/* SPDX-License-Identifier: GPL-2.0-only */
/* What must be true of the core's own state between any two calls. */
#ifndef DM_IOBAND_CHECK_H
#define DM_IOBAND_CHECK_H

#include "dm-ioband-policy.h"

/*
 * @groups are all groups of @s, active or not. NULL if all is well, else what
 * isn't, until the next call.
 */
const char *check_core(const struct ioband_sched *s,
		       const struct ioband_share *const *groups, u32 nr);

#endif /* DM_IOBAND_CHECK_H */
