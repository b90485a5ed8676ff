/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A domain set by hand: groups A, B, C, ..., I/O of one at a time, made-up time.
 */
#ifndef DM_IOBAND_RIG_H
#define DM_IOBAND_RIG_H

#include <linux/kernel.h>
#include <linux/time64.h>

#include "check.h"
#include "dm-ioband-policy.h"

#define MAX_GROUPS	8
#define MAX_REQS	8192
#define SZ_1M		(1U << 20)
#define TAG(tokens, weight) \
	(((u64)(tokens) << IOBAND_TAG_SHIFT) / (weight))
/* Leads and lags stay far from where the sign of a difference turns. */
#define TAG_LIMIT	BIT_ULL(62)

#define BE		IOBAND_PRIO_BE
#define IDLE		IOBAND_PRIO_IDLE

/* A domain with its groups, and a stock of I/Os that says whose each is. */
static struct rig {
	struct ioband_sched s;
	struct ioband_share g[MAX_GROUPS];
	struct ioband_req reqs[MAX_REQS];
	u32 owner[MAX_REQS];
	u32 nr_reqs;
	u32 nr_groups;
	u64 now;
	u64 until;
	/* Look at all of the core's state at each step. */
	bool check;
} rig;

static inline void rig_check(void)
{
	const struct ioband_share *groups[MAX_GROUPS];
	const char *wrong;
	u32 i;

	if (!rig.check)
		return;
	for (i = 0; i < rig.nr_groups; i++)
		groups[i] = &rig.g[i];
	wrong = check_core(&rig.s, groups, rig.nr_groups);
	if (wrong)
		failf("inside of the core: %s", wrong);
}

static inline void set_weight(u32 group, u32 weight)
{
	const struct ioband_claim claim = { .weight = weight };

	ioband_share_set_claim(&rig.g[group], &claim, rig.now);
	rig_check();
}

static inline void rig_init_at(u64 first_tag, u32 depth, u32 nr_groups,
			       const u32 *weights)
{
	u32 i;

	memset(&rig, 0, sizeof(rig));
	rig.now = SEC;
	ioband_sched_init(&rig.s, ioband_policy_find("default"), depth);
	rig.s.root.tag = first_tag;
	rig.s.root.span_tag = first_tag;
	rig.s.round_tag = first_tag;
	for (i = 0; i < nr_groups; i++) {
		ioband_share_init(&rig.g[i], &rig.s, SZ_1M, 1);
		set_weight(i, weights[i]);
		ioband_share_activate(&rig.g[i]);
	}
	rig.nr_groups = nr_groups;
}

/* rig_init(depth, weight of A, of B, ...) */
#define rig_init(depth, ...) do {					\
	const u32 _w[] = { __VA_ARGS__ };				\
									\
	rig_init_at(0, depth, ARRAY_SIZE(_w), _w);			\
} while (0)

static inline struct ioband_req *new_io(u32 group, u8 dir, u8 prio,
					u32 sectors, u32 ios, bool sync)
{
	struct ioband_req *r = &rig.reqs[rig.nr_reqs];

	assert_true(rig.nr_reqs < MAX_REQS);
	rig.owner[rig.nr_reqs++] = group;
	r->dir = dir;
	r->prio = prio;
	r->ios = ios;
	r->sectors = sectors;
	r->sync = sync;
	return r;
}

/* By the policy weight, a token a request. */
static inline struct ioband_req *new_req(u32 group, u8 dir, u8 prio,
					 u32 tokens, bool sync)
{
	return new_io(group, dir, prio, 8, tokens, sync);
}

static inline struct ioband_req *hold_req(struct ioband_req *r)
{
	ioband_hold(&rig.g[rig.owner[r - rig.reqs]], r, rig.now);
	rig_check();
	return r;
}

static inline struct ioband_req *hold_as(u32 group, u8 dir, u8 prio,
					 u32 tokens, bool sync)
{
	return hold_req(new_req(group, dir, prio, tokens, sync));
}

/* An I/O of so much data, which is one request. */
static inline struct ioband_req *hold_data(u32 group, u8 dir, u32 bytes)
{
	return hold_req(new_io(group, dir, BE, bytes >> 9, 1, false));
}

/* A read that nobody waits for. */
static inline struct ioband_req *hold(u32 group, u32 tokens)
{
	return hold_as(group, IOBAND_READ, BE, tokens, false);
}

static inline void hold_many(u32 group, u32 n, u32 tokens)
{
	while (n--)
		hold(group, tokens);
}

static inline u32 owner(const struct ioband_req *r)
{
	return rig.owner[r - rig.reqs];
}

static inline void take(struct ioband_req *r)
{
	ioband_take(&rig.g[owner(r)], r, rig.now);
	rig_check();
}

static inline void done(struct ioband_req *r)
{
	ioband_done(&rig.g[owner(r)], r, rig.now);
	rig_check();
}

/* Of an I/O that may not be held. */
static inline void charge_debt(u32 group, u32 tokens)
{
	ioband_charge_debt(&rig.g[group],
			   new_req(group, IOBAND_READ, BE, tokens, false),
			   rig.now);
	rig.nr_reqs--;
	rig_check();
}

static inline struct ioband_req *peek(u32 in_flight)
{
	struct ioband_req *r;

	r = ioband_peek(&rig.s, in_flight, rig.now, &rig.until);
	rig_check();
	return r;
}

static inline struct ioband_req *drain(u32 group)
{
	struct ioband_req *r = ioband_drain(&rig.g[group]);

	rig_check();
	return r;
}

static inline struct ioband_req *send(void)
{
	struct ioband_req *r = peek(0);

	if (r)
		take(r);
	return r;
}

/* The groups of the next @n I/Os as letters; '-' if nothing may go. */
static inline const char *send_letters(u32 n)
{
	static char buf[MAX_REQS + 1];
	struct ioband_req *r;
	u32 i;

	for (i = 0; i < n; i++) {
		r = send();
		buf[i] = r ? 'A' + owner(r) : '-';
	}
	buf[n] = '\0';
	return buf;
}

/* Before the clock of its siblings, as a tag. */
static inline s64 lead(u32 group)
{
	const struct ioband_share *g = &rig.g[group];

	return (s64)(g->tag - (g->parent ? g->parent->below.tag :
					   rig.s.root.tag));
}

#endif /* DM_IOBAND_RIG_H */
