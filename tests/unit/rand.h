/* SPDX-License-Identifier: GPL-2.0-only */
/* A small generator of our own, so that a seed means the same everywhere. */
#ifndef DM_IOBAND_RAND_H
#define DM_IOBAND_RAND_H

#include <linux/minmax.h>
#include <linux/types.h>

struct sim_rand {
	u64 state;
};

static inline void sim_rand_seed(struct sim_rand *r, u64 seed)
{
	r->state = seed;
}

/* splitmix64 */
static inline u64 sim_rand_next(struct sim_rand *r)
{
	u64 z = r->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Uniform in [@lo, @hi]. */
static inline u64 sim_rand_range(struct sim_rand *r, u64 lo, u64 hi)
{
	return hi > lo ? lo + sim_rand_next(r) % (hi - lo + 1) : lo;
}

/* As likely between 1 and 2 as between 16384 and 32768. */
static inline u64 sim_rand_log(struct sim_rand *r, u64 lo, u64 hi)
{
	u32 doublings = 0;

	while (lo << (doublings + 1) <= hi)
		doublings++;
	lo <<= sim_rand_range(r, 0, doublings);
	return sim_rand_range(r, lo, min(lo * 2 - 1, hi));
}

/* @mean plus or minus up to @pct percent. */
static inline u64 sim_rand_jitter(struct sim_rand *r, u64 mean, u32 pct)
{
	u64 half = mean * pct / 100;

	return half ? sim_rand_range(r, mean - half, mean + half) : mean;
}

#endif /* DM_IOBAND_RAND_H */
