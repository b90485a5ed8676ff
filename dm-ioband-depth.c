// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-ioband: finding the depth of a disk.
 *
 * The threshold should be the number of I/Os that the disk works on at a time:
 * above it I/O waits inside the disk, where no order can be kept; below it the
 * disk idles. Nobody tells that number, and it changes. So it is tried out: for
 * a moment another depth is set, and what counts is
 *
 *	e = d ln(rate) / d ln(depth)	of the step from a depth to a larger one.
 *
 *	e >= 0.6	the disk has idle slots: deeper. Nobody really contends.
 *	0.05 < e < 0.6	the disk gets more efficient (it reorders): deeper, unless
 *			a group then has all of its I/O inside the disk while it is
 *			behind its share ("dry"), or the disk's queue has no place
 *			for so much: shares would break.
 *	e <= 0.05	nothing gained: the smaller one.
 *
 * The rate is in tokens, because these are what the policy says that the disk
 * does; the number of I/Os also follows from which of them happen to be large.
 * It is taken in blocks, each of as many completions as the depth, so that
 * completions that come in volleys make even blocks; longer ones where they are
 * uneven all the same. A trial ends as soon as its outcome is clear from the
 * mean and the mean deviation of the blocks: after a few on a disk of even
 * speed, later on an uneven one, where the found depth and the one on trial take
 * turns until both are known. What failed is tried again after twice the time, so
 * that in the long run trials take a small part of it. A rate that changes by a
 * quarter starts all over.
 *
 * On an uneven disk the gain of a small step can't be told from chance: there the
 * depth is halved for a trial, and doubled again later though that has failed.
 *
 * A group that has the disk to itself needs no order, so for it a depth is found
 * apart: it may be deeper for less, and is kept for the next time, as is that for
 * several. The caller says which is in force (ioband_depth_alone()). Where its load
 * keeps running out, the disk isn't the limit, and it isn't held at all.
 *
 * Only I/O that asks the core is seen, which is all while an eighth of it or
 * more finds something held; else nobody gains by another depth. That the disk
 * is idle now and then doesn't end a trial: where the processor is the limit it
 * always is, and what counts is how much gets done.
 */
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "dm-ioband-policy.h"

/* Blocks of a trial after which it may fail early, ... */
#define BLOCKS_FEW	3U
/* ... and may end at all. */
#define BLOCKS_MIN	6U
/* At the latest after so many, or after these of the largest length. */
#define BLOCKS_MAX	128U
#define BLOCKS_SOME	12U
/* Of a trial that breaks shares. */
#define BLOCKS_DRY	96U
/* A block has so many completions at least. */
#define BLOCK_LEAST	2
/* Longest block: times 2 to the power of this. */
#define STRETCH_MAX	8
/* Blocks at the found depth between two trials, at first and at most. */
#define WAIT_FIRST	BLOCKS_MIN
#define WAIT_AGAIN	(WAIT_FIRST * 4)
#define WAIT_MOST	2048U
/* The mean of the found depth forgets what is older than this. */
#define BASE_BLOCKS	96U
/* After so many, another speed is another speed. */
#define KNOWN_BLOCKS	32U
/* Elasticities in percent. */
#define E_IDLE		60
#define E_GAIN		5
/* At least so much is lost by half the depth if it is near the number of slots. */
#define E_KNEE		60
/* A group alone: holding it has a cost and no use, if the disk takes more. */
#define E_ALONE		2
/* Above such an error, times ONE, nothing speaks against a deeper one for it. */
#define ALONE_ERROR	(ONE / 8)
/* A group is dry if it is so in more than 1/20 of what is sent. */
#define DRY_PART	20
/* The disk's queue is too short if more than 1/8, and at least 4, wait for it. */
#define STUCK_LEAST	4
#define STUCK_PART	8
/* Steps down in percent: of an uneven rate, and of an even one. */
#define DOWN_FAR	50
#define DOWN_NEAR	20
/* So well a rate has to be known to show what a small step loses. */
#define EVEN_ERROR	(ONE / 48)
/* No disk is by so much slower for more I/O: that is chance until the end. */
#define SLOWER		(ONE / 32)
/* Scale of ratios. */
#define ONE		1024
/* Without I/O for so many times the usual time: the load has paused. */
#define PAUSE_LEAST	8
/* A processor that was busy with something else for a moment is no pause. */
#define PAUSE_LEAST_NS	(4ULL * NSEC_PER_MSEC)
/* A load that runs out after so many times the I/O it had at most is a batch, ... */
#define BATCH		4U
/* ... if so much I/O takes no longer than a second group could wait for it. */
#define BATCH_NS	(10ULL * NSEC_PER_MSEC)
/* ... and often so: the third in a row at the latest. */
#define BATCHES_LEAST	(ONE / 4)
/* Batches from a failure of not holding them to the next attempt. */
#define FREE_WAIT_LEAST	4U
#define FREE_WAIT_MOST	256U
/* Something must be held at such a part of the completions, times ONE. */
#define HELD_LEAST	(ONE / 8)

/* Time of a token, times ONE. */
static u64 rate_mean(const struct ioband_rate *r)
{
	return r->tokens ? mul_u64_u64_div_u64(r->sum_ns, ONE, r->tokens) : 0;
}

static void rate_add(struct ioband_rate *r, u64 ns, u64 tokens)
{
	u64 mean;

	if (r->blocks) {
		mean = mul_u64_u64_div_u64(r->sum_ns, tokens, r->tokens);
		r->dev_ns += ns > mean ? ns - mean : mean - ns;
		r->devs++;
	}
	r->sum_ns += ns;
	r->tokens += tokens;
	r->blocks++;
	if (r->blocks > BASE_BLOCKS * 2) {
		r->sum_ns /= 2;
		r->tokens /= 2;
		r->blocks /= 2;
		r->dev_ns /= 2;
		r->devs /= 2;
	}
}

/* A block's mean deviation, relative to its time, times ONE. */
static u64 rate_uneven(const struct ioband_rate *r)
{
	u64 mean = max_t(u64, div_u64(r->sum_ns, max(r->blocks, 1U)), 1);
	u64 dev = r->devs ? div_u64(r->dev_ns, r->devs) : mean;

	return div64_u64(dev * ONE, mean);
}

/* Relative error of the mean, times ONE: two standard errors or so. */
static u64 rate_error(const struct ioband_rate *r)
{
	/* 1.25 mean deviations are a standard deviation. */
	return div64_u64(rate_uneven(r) * 5 / 2, int_sqrt(r->blocks));
}

/* Of a ratio of two rates: sqrt(a * a + b * b) to 7 %. */
static u64 both_errors(u64 a, u64 b)
{
	return max(a, b) + min(a, b) * 3 / 8;
}

/*
 * (large / small)^(e / 100), times ONE. Exact to 1 % for ratios up to 2:
 * r^a is about 1 + a (r - 1) / (1 + (1 - a) (r - 1) / 2).
 */
static u32 gain(u32 small, u32 large, u32 e)
{
	u64 all = ONE;

	while (small < large) {
		u32 next = min(large, small * 2);
		u64 more = div_u64((u64)(next - small) * ONE, small);

		all += div64_u64(all * more * e / 100,
				 ONE + more * (100 - e) / 200);
		small = next;
	}
	return all;
}

static void start_block(struct ioband_depth *d, u64 now_ns)
{
	d->count = 0;
	d->tokens = 0;
	d->block_ns = now_ns;
}

static void set_depth(struct ioband_depth *d, u32 depth)
{
	d->depth = depth;
	memset(&d->recent, 0, sizeof(d->recent));
	/* What is in the disk now was sent at the old depth. */
	d->skip = 1;
}

/**
 * ioband_depth_start - begin to look for the depth
 * @d: the state
 * @most: largest depth allowed
 *
 * What was found before stays the guess to start from, within @most.
 */
void ioband_depth_start(struct ioband_depth *d, u32 most)
{
	u32 depth = clamp(d->found, 1U, most);
	u32 other = d->other;
	bool alone = d->alone;

	memset(d, 0, sizeof(*d));
	d->most = most;
	d->other = other;
	d->alone = alone;
	d->found = depth;
	d->depth = depth;
	d->up_pct = 100;
	d->down_pct = DOWN_FAR;
	d->wait[0] = WAIT_FIRST;
	d->wait[1] = WAIT_FIRST;
	d->skip = 1;
}

static void restart(struct ioband_depth *d)
{
	ioband_depth_start(d, d->most);
}

/*
 * From 1 on, 2 and 4 are tried in turns: a disk that reorders has a choice only
 * from the third I/O on. Elsewhere the steps become smaller.
 */
static u32 least_step(const struct ioband_depth *d)
{
	if (d->found > 1)
		return 25;
	return d->load > 2 ? 50 : 100;
}

/* The depths to try next; 0 if there is none in that direction. */
static u32 step_up(const struct ioband_depth *d)
{
	u32 depth = d->found + max_t(u32, d->found * d->up_pct / 100, 1);

	/* See least_step(). */
	if (d->found == 1 && d->up_pct < 100)
		depth = 4;
	/* Nor does it help to have room for more than there is. */
	depth = min(depth, min(d->most, d->load));
	if (d->full)
		depth = min(depth, d->full - 1);
	return depth > d->found ? depth : 0;
}

static bool is_dry(const struct ioband_depth *d)
{
	return d->dry * DRY_PART > d->sent;
}

/* The disk's queue has no places for so much: a slot isn't free when it seems so. */
static bool is_stuck(const struct ioband_depth *d)
{
	return d->stuck >= STUCK_LEAST && d->stuck * STUCK_PART > d->tries;
}

/* Is the depth in use one at which shares can't be kept? */
static bool breaks_shares(const struct ioband_depth *d)
{
	return is_dry(d) || is_stuck(d);
}

/* The depth by so many percent smaller than another, 0 if that is 1. */
static u32 below(u32 depth, u32 pct)
{
	return depth > 1 ? depth - max(depth * pct / 100, 1U) : 0;
}

/*
 * Where the rate is uneven, what a small step loses can't be told from chance, and
 * many that were taken by chance lead far down; what half the depth loses can. Small
 * ones are for a rate known well, a depth near the number of the disk's slots, and
 * for shares: as deep as they hold.
 */
static u32 step_down(const struct ioband_depth *d)
{
	bool near = breaks_shares(d) || rate_error(&d->base) < EVEN_ERROR;

	return below(d->found, near ? DOWN_NEAR : d->down_pct);
}

/* How much faster the larger depth is, times ONE. */
static u64 trial_ratio(const struct ioband_depth *d)
{
	bool up = d->trial > d->found;
	const struct ioband_rate *slow = up ? &d->base : &d->tried;
	const struct ioband_rate *fast = up ? &d->tried : &d->base;

	return div64_u64(rate_mean(slow) * ONE, max_t(u64, rate_mean(fast), 1));
}

/* The error is mostly that of the found depth: blocks there help most. */
static bool base_is_short(const struct ioband_depth *d)
{
	return d->base.blocks < d->tried.blocks / 2;
}

/* Is the outcome of a trial clear? Then whether the larger depth is better. */
static bool is_clear(const struct ioband_depth *d, bool *larger)
{
	bool up = d->trial > d->found;
	u32 small = up ? d->found : d->trial;
	u32 large = up ? d->trial : d->found;
	u64 ratio = trial_ratio(d);
	u64 base_error = rate_error(&d->base);
	u64 tried_error = rate_error(&d->tried);
	u64 error = base_error + tried_error;
	u32 idle = gain(small, large, E_IDLE);
	u32 some = gain(small, large, d->alone ? E_ALONE : E_GAIN);
	/* A dry group makes the middle zone part of the lower one. */
	bool dry = up ? d->tried_dry : d->base_dry;
	u32 edge = dry ? idle : some;
	bool noisy;
	u32 most;

	*larger = ratio > edge;
	/*
	 * What fails soon changes nothing: a shallower depth has cost throughput
	 * until then, a deeper one shares, where blocks are long or the disk's
	 * queue too short: who waits there for a place sends nothing meanwhile.
	 */
	if (d->tried.blocks < BLOCKS_MIN && (up || !*larger))
		return up && dry && (d->stretch || is_stuck(d)) && !*larger;
	noisy = d->alone && error > ALONE_ERROR;
	/* No more I/O than in blocks of the usual length, if they are enough. */
	most = max(BLOCKS_MAX >> d->stretch, BLOCKS_SOME);
	if (up && dry)
		most = min(most, BLOCKS_DRY);
	if (d->tried.blocks >= most && !base_is_short(d)) {
		if (noisy)
			*larger = ratio + error > edge;
		return true;
	}
	if (!dry && ratio + SLOWER < ONE)
		return false;
	/* The shallower one has to be clearer: too deep costs less. */
	return ratio > edge + both_errors(base_error, tried_error) ||
	       (ratio + error < edge && !noisy);
}

static void end_trial(struct ioband_depth *d, bool larger)
{
	bool up = d->trial > d->found;
	u32 *wait = &d->wait[up];

	/*
	 * From there on nothing is held, and what isn't is not seen: no way back.
	 * Once may have been chance, or the disk has become faster meanwhile.
	 */
	if (up && larger && d->tried_dry && d->trial >= d->load &&
	    d->twice != d->trial) {
		d->twice = d->trial;
		*wait = WAIT_FIRST;
		memset(&d->base, 0, sizeof(d->base));
		set_depth(d, d->found);
	} else if (up == larger) {
		d->found = d->trial;
		d->twice = 0;
		d->down_pct = DOWN_FAR;
		/* The same again at once, the other way later. */
		*wait = WAIT_FIRST;
		d->wait[!up] = max(d->wait[!up], WAIT_AGAIN);
		d->base = d->tried;
		d->base_dry = d->tried_dry;
		if (d->depth != d->found)
			set_depth(d, d->found);
	} else {
		if (up && is_stuck(d))
			d->full = d->trial;
		if (up && d->up_pct > least_step(d)) {
			d->up_pct = d->up_pct == 100 ? 50 : 25;
		} else if (d->trial < below(d->found, DOWN_NEAR) &&
			   trial_ratio(d) > gain(d->trial, d->found, E_KNEE)) {
			d->down_pct = DOWN_NEAR;
		} else {
			*wait = clamp(*wait * 2, WAIT_AGAIN, WAIT_MOST);
			if (!up)
				d->down_pct = DOWN_FAR;
			else if (d->found == 1 ||
				 (!d->tried_dry &&
				  rate_error(&d->base) >= EVEN_ERROR))
				/* The large one may have failed by chance. */
				d->up_pct = 100;
		}
		d->twice = 0;
		set_depth(d, d->found);
	}
	d->trial = 0;
	d->since[up] = 0;
}

static void begin_trial(struct ioband_depth *d, u32 depth)
{
	d->trial = depth;
	d->base_dry = breaks_shares(d);
	memset(&d->tried, 0, sizeof(d->tried));
	set_depth(d, depth);
}

/*
 * A disk that works in bursts, for the bytes that a quota leaves it or between
 * writes that it has to tidy up: no number of blocks within a burst says what it
 * does in the long run, so they have to be longer than that.
 */
static void set_stretch(struct ioband_depth *d)
{
	u64 uneven = rate_uneven(&d->base);

	/* Later it may as well be another speed, see speed_changed(). */
	if (d->base.devs < BLOCKS_MIN - 1 || d->base.blocks > KNOWN_BLOCKS)
		return;
	if (uneven > ONE / 2 && d->stretch < STRETCH_MAX) {
		d->stretch++;
		memset(&d->base, 0, sizeof(d->base));
	} else if (uneven < ONE / 8 && d->stretch) {
		/* No new start, which could follow from the last one for ever. */
		d->stretch--;
	}
}

/* Does the latest block, which isn't in @r yet, show another speed? */
static bool speed_changed(struct ioband_depth *d, const struct ioband_rate *r,
			  u64 ns)
{
	u64 recent, mean = rate_mean(r);
	bool changed;

	rate_add(&d->recent, ns, d->tokens);
	if (d->recent.blocks < BLOCKS_SOME)
		return false;
	recent = rate_mean(&d->recent);
	changed = r->blocks > KNOWN_BLOCKS &&
		  (recent * 4 > mean * 5 || recent * 5 < mean * 4) &&
		  rate_error(&d->recent) < ONE / 8;
	memset(&d->recent, 0, sizeof(d->recent));
	return changed;
}

/* What was found was right for the old speed: deeper first. */
static void restart_speed(struct ioband_depth *d)
{
	restart(d);
	d->wait[0] = WAIT_AGAIN;
}

/* A block at the depth on trial is complete. */
static void tried_block(struct ioband_depth *d, u64 ns)
{
	bool larger;

	if (speed_changed(d, &d->tried, ns)) {
		restart_speed(d);
		return;
	}
	rate_add(&d->tried, ns, d->tokens);
	d->tried_dry = breaks_shares(d);
	if (d->tried.blocks < BLOCKS_FEW)
		return;
	if (is_clear(d, &larger)) {
		end_trial(d, larger);
	} else if (base_is_short(d)) {
		d->pending = d->trial;
		d->trial = 0;
		set_depth(d, d->found);
	}
}

/* A block at the found depth is complete. */
static void found_block(struct ioband_depth *d, u64 ns)
{
	bool larger;
	u32 up, down;

	/* Nobody gains by another depth. */
	if (d->held < HELD_LEAST)
		return;
	if (speed_changed(d, &d->base, ns)) {
		restart_speed(d);
		return;
	}
	rate_add(&d->base, ns, d->tokens);
	if (d->pending) {
		if (d->base.blocks < d->tried.blocks)
			return;
		d->trial = d->pending;
		d->pending = 0;
		if (is_clear(d, &larger))
			end_trial(d, larger);
		else
			set_depth(d, d->trial);
		return;
	}
	d->since[0]++;
	d->since[1]++;
	set_stretch(d);
	if (d->base.blocks < BLOCKS_MIN)
		return;
	up = step_up(d);
	down = step_down(d);
	if (up && d->since[1] >= d->wait[1])
		begin_trial(d, up);
	else if (down && d->since[0] >= d->wait[0])
		begin_trial(d, down);
}

/*
 * Nothing was in flight before this completion's I/O. Where the processor is the
 * bottleneck that is so all the time; else the load has come to an end, and
 * there is a new one.
 */
static void after_idle(struct ioband_depth *d, u64 gap_ns, u64 now_ns)
{
	d->idle = false;
	if (!d->unseen &&
	    gap_ns < max(d->gap_ns * PAUSE_LEAST, PAUSE_LEAST_NS))
		return;
	d->unseen = false;
	if (d->trial) {
		d->trial = 0;
		d->depth = d->found;
	}
	d->skip = 1;
	start_block(d, now_ns);
}

/* Was all that was done since the load ran out last a batch? */
static bool is_batch(const struct ioband_depth *d)
{
	return d->run <= d->peak * BATCH;
}

/* In this time the disk does as much as there was at most, if it was @depth deep. */
static u64 drain_ns(const struct ioband_depth *d, u32 depth)
{
	u64 ns = d->last_ns - d->run_ns;
	/* At the one on trial it was a part of the time. */
	u32 now = d->trial ? min(d->found, d->trial) : d->depth, then;

	now = min(now, d->peak);
	then = min(depth, d->peak);
	/* @run_ns is the end of the first. */
	if (d->run < 2)
		return 0;
	ns = div_u64(ns * d->peak, d->run - 1);
	return now < then ? mul_u64_u64_div_u64(ns, now, then) : ns;
}

/* The depth of a group that isn't held. */
static u32 free_depth(const struct ioband_depth *d)
{
	return d->full ? min(d->most, d->full - 1) : d->most;
}

/*
 * Holding a group alone has a cost, and no use if the disk isn't the limit: if its
 * load keeps running out, it is waited for that, not for the disk. That the disk is
 * done with a batch in time is tried where it could be, if it did more at a time in
 * proportion; after a failure again much later.
 */
static bool is_free(const struct ioband_depth *d)
{
	return d->alone && d->batches > BATCHES_LEAST && is_batch(d) &&
	       !d->free_left && drain_ns(d, free_depth(d)) <= BATCH_NS;
}

/* The found depth is kept for when that is over. */
static void set_free(struct ioband_depth *d)
{
	d->trial = 0;
	d->pending = 0;
	set_depth(d, free_depth(d));
}

/* It has to be held after all: for longer if the disk is too slow for a batch. */
static void end_free(struct ioband_depth *d)
{
	if (is_batch(d)) {
		d->free_wait = clamp(d->free_wait * 2, FREE_WAIT_LEAST,
				     FREE_WAIT_MOST);
		d->free_left = d->free_wait;
	}
	set_depth(d, d->found);
}

/* The load ran out. */
static void end_run(struct ioband_depth *d)
{
	bool batch = is_batch(d), held = d->trial || d->depth == d->found;

	d->batches = (d->batches * 7 + batch * ONE) / 8;
	if (!batch)
		return;
	d->free_left -= !!d->free_left;
	if (held) {
		if (is_free(d))
			set_free(d);
	} else if (is_free(d)) {
		d->free_wait = 0;
	} else {
		end_free(d);
	}
}

/**
 * ioband_depth_done - tell of a completion
 * @d: the state
 * @tokens: what it cost
 * @load: I/Os held or in flight before it
 * @held: something is held that only wants room
 * @now_ns: time
 *
 * Return: the depth to use from now on.
 */
u32 ioband_depth_done(struct ioband_depth *d, u32 tokens, u32 load, bool held,
		      u64 now_ns)
{
	u64 gap_ns = d->last_ns ? now_ns - d->last_ns : 0;
	u64 ns;

	if (d->idle)
		after_idle(d, gap_ns, now_ns);
	d->last_ns = now_ns;
	if (d->gap_ns)
		gap_ns = min(gap_ns, d->gap_ns * 2);
	d->gap_ns = (d->gap_ns * 15 + gap_ns + 15) / 16;
	d->held = (d->held * 31 + held * ONE) / 32;
	d->load = max(load, d->load - d->load / 8);
	if (!d->run++)
		d->run_ns = now_ns;
	d->peak = max(d->peak, load);
	d->tokens += tokens;
	if (++d->count < max_t(u32, d->depth, BLOCK_LEAST) << d->stretch)
		return d->depth;
	ns = now_ns - d->block_ns;
	if (d->skip) {
		d->skip--;
		d->dry = 0;
		d->sent = 0;
		d->tries = 0;
		d->stuck = 0;
	} else if (!d->trial && d->depth != d->found) {
		if (!is_free(d))
			end_free(d);
	} else if (!d->trial) {
		found_block(d, ns);
	} else {
		tried_block(d, ns);
	}
	start_block(d, now_ns);
	return d->depth;
}

/**
 * ioband_depth_sent - tell of I/O that was handed to the disk
 * @d: the state
 * @ios: how many, by a thread that sees whether it had to wait
 * @stuck: of these, for which there was no place in the disk's queue
 */
void ioband_depth_sent(struct ioband_depth *d, u32 ios, u32 stuck)
{
	d->tries += ios;
	d->stuck += stuck;
}

/**
 * ioband_depth_alone - tell whether one group alone has I/O
 * @d: the state
 * @alone: it has
 *
 * A depth that suits one group may break the shares of several, so two are kept.
 *
 * Return: the depth to use from now on.
 */
u32 ioband_depth_alone(struct ioband_depth *d, bool alone)
{
	bool known = d->other;
	u32 full = d->full, free_wait = d->free_wait;
	u32 batches = alone ? d->batches : 0;

	if (d->alone == alone)
		return d->depth;
	swap(d->found, d->other);
	if (!known)
		d->found = d->other;
	d->alone = alone;
	restart(d);
	d->full = full;
	d->free_wait = free_wait;
	d->free_left = free_wait;
	d->batches = batches;
	if (known) {
		d->wait[0] = WAIT_AGAIN;
		d->wait[1] = WAIT_AGAIN;
	}
	return d->depth;
}

/**
 * ioband_depth_idle - tell that nothing is in flight any more, nor held
 * @d: the state
 * @unseen: completions need not be told of from now on
 *
 * Return: the depth to use from now on.
 */
u32 ioband_depth_idle(struct ioband_depth *d, bool unseen)
{
	d->idle = true;
	d->unseen |= unseen;
	if (!unseen && d->run)
		end_run(d);
	d->run = 0;
	d->peak = 0;
	return d->depth;
}

/**
 * ioband_depth_watches - must all completions be told of?
 * @d: the state
 *
 * Return: true during a trial, and where many want room: what goes unseen while
 * nothing happens to be held would be missing in the rate.
 */
bool ioband_depth_watches(const struct ioband_depth *d)
{
	return d->trial || d->held >= HELD_LEAST;
}
