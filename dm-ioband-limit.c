// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-ioband: token buckets.
 *
 * A bucket fills at its rate up to its size; an I/O passes when the bucket holds
 * what it costs, or is full if it costs more, and takes it out. The level is
 * kept as the time when the bucket will be full, as in the generic cell rate
 * algorithm (ITU-T I.371), so that nothing has to be done while time passes.
 *
 * The size is burst_ns at the rate, but never less than one largest I/O
 * ("least" tokens). A bucket starts empty: a limit holds from the first I/O on.
 */
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "dm-ioband-policy.h"

/* No I/O has more tokens (bytes) than this, so that ns fit 63 bits at 1/s. */
#define MAX_TOKENS	((u64)U32_MAX)
/* I/O that may not be held delays the group's next one by this at most. */
#define DEBT_NS		((u64)NSEC_PER_SEC)

static u64 tokens_to_ns(u64 tokens, u64 rate)
{
	return div64_u64(min(tokens, MAX_TOKENS) * NSEC_PER_SEC, rate);
}

static u64 size_ns(u64 rate, u64 least, u64 burst_ns)
{
	return max(burst_ns, tokens_to_ns(least, rate));
}

/* What the bucket holds, as the time it took to fill; 0 if it is in debt. */
static u64 level_ns(const struct ioband_bucket *b, u64 size, u64 now_ns)
{
	u64 missing = b->full_ns > now_ns ? b->full_ns - now_ns : 0;

	return size > missing ? size - missing : 0;
}

/**
 * ioband_bucket_set - change a bucket's rate or size
 * @b: bucket
 * @rate: tokens a second, 0 for no limit
 * @least: size in tokens that the bucket has at least
 * @old_burst_ns: size in time so far
 * @burst_ns: size in time at @rate
 * @now_ns: time
 *
 * The bucket keeps the tokens that it holds, as far as they fit, but no debt:
 * a higher limit frees what the old one held. A new bucket is empty.
 */
void ioband_bucket_set(struct ioband_bucket *b, u64 rate, u64 least,
		       u64 old_burst_ns, u64 burst_ns, u64 now_ns)
{
	u64 level = 0, size, most;

	if (!rate) {
		*b = (struct ioband_bucket){};
		return;
	}
	size = size_ns(rate, least, burst_ns);
	if (b->rate) {
		level = level_ns(b, size_ns(b->rate, least, old_burst_ns),
				 now_ns);
		if (b->rate >= rate) {
			/* More time at the lower rate, at most all of it. */
			most = mul_u64_u64_div_u64(size, rate, b->rate);
			level = level >= most ? size :
				mul_u64_u64_div_u64(level, b->rate, rate);
		} else {
			level = mul_u64_u64_div_u64(level, b->rate, rate);
		}
		level = min(level, size);
	}
	b->rate = rate;
	b->rest = 0;
	b->full_ns = now_ns + size - level;
}

/**
 * ioband_bucket_ready - when an I/O may pass
 * @b: bucket with a rate
 * @tokens: what the I/O costs
 * @least: size in tokens that the bucket has at least
 * @burst_ns: size in time at the bucket's rate
 * @now_ns: time
 *
 * Return: the time, at most @now_ns if the I/O may pass now.
 */
u64 ioband_bucket_ready(const struct ioband_bucket *b, u64 tokens, u64 least,
			u64 burst_ns, u64 now_ns)
{
	u64 size, missing, most;

	if (b->full_ns <= now_ns || !tokens)
		return now_ns;
	size = size_ns(b->rate, least, burst_ns);
	/* The level is size - missing, and must be what the I/O costs. */
	missing = b->full_ns - now_ns;
	most = size - min(tokens_to_ns(tokens, b->rate), size);
	return missing > most ? now_ns + missing - most : now_ns;
}

/**
 * ioband_bucket_take - take tokens out of a bucket
 * @b: bucket with a rate
 * @tokens: how many; more than it holds leave a debt
 * @now_ns: time
 */
void ioband_bucket_take(struct ioband_bucket *b, u64 tokens, u64 now_ns)
{
	u64 n;

	if (!tokens)
		return;
	if (b->full_ns < now_ns) {
		b->full_ns = now_ns;
		b->rest = 0;
	}
	/* Nothing is lost to rounding, however high the rate. */
	n = min(tokens, MAX_TOKENS) * NSEC_PER_SEC + b->rest;
	b->full_ns += div64_u64_rem(n, b->rate, &b->rest);
}

/**
 * ioband_bucket_owe - charge for what had to pass though it should have waited
 * @b: bucket with a rate
 * @tokens: how many
 * @least: size in tokens that the bucket has at least
 * @burst_ns: size in time at the bucket's rate
 * @now_ns: time
 *
 * The debt is a second's worth at most.
 */
void ioband_bucket_owe(struct ioband_bucket *b, u64 tokens, u64 least,
		       u64 burst_ns, u64 now_ns)
{
	u64 most = max(b->full_ns, now_ns + DEBT_NS +
		       size_ns(b->rate, least, burst_ns));

	ioband_bucket_take(b, tokens, now_ns);
	b->full_ns = min(b->full_ns, most);
}
