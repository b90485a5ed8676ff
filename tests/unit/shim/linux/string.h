/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_STRING_H
#define SHIM_STRING_H

#include <string.h>

#endif /* SHIM_STRING_H */
