// SPDX-License-Identifier: GPL-2.0-only
/*
 * Token buckets: small cases by hand, and an exact model.
 */
#include "harness.h"

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "dm-ioband-policy.h"
#include "sim.h"

#define HOUR		(3600 * SEC)
#define MIB		(1ULL << 20)
#define BURST		(100 * MSEC)
#define TOP_RATE	((u64)S64_MAX)

__extension__ typedef __int128 s128;

/* A bucket with what the core passes to each call. */
struct jar {
	struct ioband_bucket b;
	u64 least;
	u64 burst;
	u64 now;
};

static void set(struct jar *j, u64 rate, u64 burst)
{
	ioband_bucket_set(&j->b, rate, j->least, j->burst, burst, j->now);
	j->burst = burst;
}

static u64 ready(const struct jar *j, u64 tokens)
{
	return ioband_bucket_ready(&j->b, tokens, j->least, j->burst, j->now);
}

static void take(struct jar *j, u64 tokens)
{
	ioband_bucket_take(&j->b, tokens, j->now);
}

static void owe(struct jar *j, u64 tokens)
{
	ioband_bucket_owe(&j->b, tokens, j->least, j->burst, j->now);
}

/* How long an I/O has to wait. */
static u64 wait(const struct jar *j, u64 tokens)
{
	u64 at = ready(j, tokens);

	return at > j->now ? at - j->now : 0;
}

static struct jar new_jar(u64 rate, u64 burst, u64 least)
{
	/* Long after the start; see test_soon_after_boot(). */
	struct jar j = { .least = least, .burst = BURST, .now = 1ULL << 60 };

	set(&j, rate, burst);
	return j;
}

/* --- how long an I/O waits ---
 *
 * A bucket that is new, and some time later is asked for one I/O, then for
 * another one right after that was sent.
 */
static const struct wait_row {
	const char *name;
	u64 rate, burst, least;
	u64 idle;	/* time since the bucket was new */
	u64 first;	/* tokens */
	u64 wait;	/* ns */
	u64 second;
	u64 then;
} wait_rows[] = {
	/* 1000/s for 100 ms: 100 tokens. */
	{ "wait: new is empty", 1000, BURST, 1, 0, 1, MSEC, 1, MSEC },
	{ "wait: for what it costs", 1000, BURST, 1, 0, 37, 37 * MSEC,
	  5, 5 * MSEC },
	{ "wait: not when it is there", 1000, BURST, 1, 37 * MSEC, 37, 0,
	  1, MSEC },
	{ "wait: one token missing", 1000, BURST, 1, 37 * MSEC, 38, MSEC,
	  1, MSEC },
	{ "wait: rest is kept", 1000, BURST, 1, 60 * MSEC, 20, 0, 50,
	  10 * MSEC },
	{ "wait: just full", 1000, BURST, 1, BURST, 100, 0, 1, MSEC },
	{ "wait: hours give one size", 1000, BURST, 1, 24 * HOUR, 100, 0, 1,
	  MSEC },
	/* 500 pass when 100 are there, and leave a debt of 400. */
	{ "wait: larger than the bucket", 1000, BURST, 1, 0, 500, BURST, 1,
	  401 * MSEC },
	{ "wait: larger when full", 1000, BURST, 1, HOUR, 500, 0, 500,
	  500 * MSEC },
	{ "wait: larger when nearly full", 1000, BURST, 1, 99 * MSEC, 101,
	  MSEC, 100, 101 * MSEC },
	/* 10/s for 100 ms is 1, so the size is one largest I/O: 4096. */
	{ "wait: least size", 10, BURST, 4096, 0, 4096, 4096 * SEC / 10, 10,
	  SEC },
	{ "wait: least size is the size", 10, BURST, 4096, 24 * HOUR, 4096, 0,
	  1, SEC / 10 },
	{ "wait: beyond the least size", 10, BURST, 4096, 24 * HOUR, 5000, 0,
	  1, 905 * SEC / 10 },
	{ "wait: burst of 10 s", 1000, 10 * SEC, 1, HOUR, 10000, 0, 1, MSEC },
	{ "wait: no least size", 1000, BURST, 0, HOUR, 100, 0, 100, BURST },
	{ "wait: what costs nothing", 1000, BURST, 1, 0, 0, 0, 1, MSEC },
	/* The largest I/O there is, at a byte a second: 136 years. */
	{ "wait: lowest rate", 1, BURST, U32_MAX, 0, U32_MAX, U32_MAX * SEC, 1,
	  SEC },
	{ "wait: lowest rate, full", 1, BURST, U32_MAX, U32_MAX * SEC, U32_MAX,
	  0, 1, SEC },
	/* A nanosecond is worth 9.2 * 10^9 tokens. */
	{ "wait: highest rate", TOP_RATE, BURST, MIB, 0, U32_MAX, 0, 1, 0 },
	{ "wait: 10^9/s", SEC, BURST, 1, 0, 1, 1, 1, 1 },
};

static void test_wait(void **state)
{
	const struct wait_row *row = *state;
	struct jar j = new_jar(row->rate, row->burst, row->least);

	j.now += row->idle;
	assert_int_equal(wait(&j, row->first), row->wait);
	/* Asking changes nothing. */
	assert_int_equal(wait(&j, row->first), row->wait);
	if (row->wait) {
		j.now += row->wait - 1;
		assert_int_equal(wait(&j, row->first), 1);
		j.now++;
	}
	assert_int_equal(wait(&j, row->first), 0);
	take(&j, row->first);
	assert_int_equal(wait(&j, row->second), row->then);
}

/* --- other rates and sizes ---
 *
 * A full bucket, out of which some tokens are taken, gets another rate and
 * size. How many tokens are there now?
 */
static const struct set_row {
	const char *name;
	u64 least;
	u64 rate, burst;
	u64 take;
	u64 new_rate, new_burst;
	u64 level;
} set_rows[] = {
	{ "set: raised, tokens stay", 1, 1000, BURST, 40, 2000, BURST, 60 },
	{ "set: raised, the bucket is larger", 1, 1000, BURST, 0, 2000, BURST,
	  100 },
	/* 40 ms are 40 tokens, not 40 ms of the new rate. */
	{ "set: raised by much", 1, 1000, BURST, 60, 1000000000, BURST, 40 },
	{ "set: lowered, tokens stay", 1, 1000, BURST, 40, 800, BURST, 60 },
	{ "set: lowered, as far as they fit", 1, 1000, BURST, 40, 500, BURST,
	  50 },
	{ "set: lowered by much", 1, 1000000000, BURST, 1000, 10, BURST, 1 },
	{ "set: lowered, least size", 4096, 1000000, BURST, 1000, 10, BURST,
	  4096 },
	{ "set: lowered, least size not full", 4096, 10000, BURST, 1000, 10,
	  BURST, 3096 },
	{ "set: shorter burst", 1, 1000, BURST, 40, 1000, BURST / 2, 50 },
	{ "set: shorter burst, nothing lost", 1, 1000, BURST, 80, 1000,
	  BURST / 2, 20 },
	{ "set: longer burst", 1, 1000, BURST, 40, 1000, 100 * BURST, 60 },
	{ "set: the same", 1, 1000, BURST, 40, 1000, BURST, 60 },
	/* The old limit holds nothing back: no debt, neither up nor down. */
	{ "set: raised, debt is gone", 1, 1000, BURST, 50000, 2000, BURST, 0 },
	{ "set: lowered, debt is gone", 1, 1000, BURST, 50000, 500, BURST, 0 },
	/*
	 * A byte a second, full after 12 days: a mebibyte is there, and no
	 * more than that at the new rate, whose size is the same.
	 */
	{ "set: after a tiny limit", MIB, 1, BURST, 0, 1000000, BURST, MIB },
	{ "set: after a tiny limit, half full", MIB, 1, BURST, MIB / 2, MIB,
	  10 * SEC, MIB / 2 },
	{ "set: from 1/s to 10^12/s", MIB, 1, BURST, 0, 1000 * SEC, BURST,
	  MIB },
	{ "set: from 10^12/s to 1/s", MIB, 1000 * SEC, BURST, 0, 1, BURST,
	  MIB },
};

/* Tokens there: the most that an I/O may cost to pass now. */
static u64 level(const struct jar *j)
{
	s128 size = (s128)j->b.rate * j->burst / SEC;
	u64 lo = 0, hi;

	if (size < (s128)j->least)
		size = j->least;
	hi = size > U32_MAX ? U32_MAX : (u64)size;
	while (lo < hi) {
		u64 mid = lo + (hi - lo + 1) / 2;

		if (wait(j, mid))
			hi = mid - 1;
		else
			lo = mid;
	}
	return lo;
}

static void test_set(void **state)
{
	const struct set_row *row = *state;
	struct jar j = new_jar(row->rate, row->burst, row->least);
	u64 slack = 0;

	j.now += U32_MAX * SEC;
	take(&j, row->take);
	set(&j, row->new_rate, row->new_burst);
	/* Times are whole nanoseconds of the higher rate. */
	slack = 2 * max(row->rate, row->new_rate) / SEC;
	assert_in_range(level(&j), row->level - min(row->level, slack),
			row->level + slack);
}

/* What waited under the old limit waits for the new one only. */
static void test_raise_frees(void **state)
{
	struct jar j = new_jar(1, BURST, MIB);

	(void)state;
	assert_int_equal(wait(&j, MIB), MIB * SEC);
	set(&j, MIB, BURST);
	assert_int_equal(wait(&j, MIB), SEC);
	set(&j, MIB * 1000, BURST);
	assert_int_equal(wait(&j, MIB), MSEC);
	set(&j, TOP_RATE, BURST);
	assert_in_range(wait(&j, MIB), 0, 1);
	/* And off altogether. */
	set(&j, 0, BURST);
	assert_int_equal(j.b.rate, 0);
}

/* Off and on again is a new limit: empty. */
static void test_off_and_on(void **state)
{
	struct jar j = new_jar(1000, BURST, 1);

	(void)state;
	j.now += HOUR;
	assert_int_equal(level(&j), 100);
	set(&j, 0, BURST);
	j.now += HOUR;
	set(&j, 1000, BURST);
	assert_int_equal(level(&j), 0);
	assert_int_equal(wait(&j, 1), MSEC);
}

/*
 * The clock counts from boot, so it may show less than a bucket's size in
 * time. A mebibyte at 10 MiB/s is there, then the limit is 1 KiB/s, at which
 * that is 1024 s; 4 KiB, taken twice, are 4 s each.
 */
static void test_soon_after_boot(void **state)
{
	static const u64 boot[] = { 1, MSEC, SEC, 100 * SEC, 2000 * SEC };
	u32 i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(boot); i++) {
		struct jar j = { .least = MIB, .burst = BURST, .now = boot[i] };

		set(&j, 10 * MIB, BURST);
		assert_int_equal(wait(&j, MIB), BURST);
		j.now += SEC;
		set(&j, 1024, BURST);
		take(&j, 4096);
		assert_int_equal(wait(&j, 4096), 0);
		take(&j, 4096);
		assert_int_equal(wait(&j, 4096), 0);
		assert_int_equal(wait(&j, MIB), 8 * SEC);
	}
}

/* --- debts --- */

static const struct owe_row {
	const char *name;
	u64 rate, burst, least;
	u64 idle;
	u64 tokens;
	u32 times;
	u64 wait;	/* for one token */
} owe_rows[] = {
	{ "owe: out of what is there", 1000, BURST, 1, HOUR, 60, 1, 0 },
	{ "owe: more than is there", 1000, BURST, 1, HOUR, 600, 1, 501 * MSEC },
	{ "owe: a second at most", 1000, BURST, 1, HOUR, 50000, 1,
	  1001 * MSEC },
	{ "owe: however often", 1000, BURST, 1, 0, 900, 100, 1001 * MSEC },
	{ "owe: from empty", 1000, BURST, 1, 0, 10, 1, 11 * MSEC },
	{ "owe: large bucket", 10, BURST, 4096, 0, 4096, 3, SEC + SEC / 10 },
	{ "owe: lowest rate", 1, BURST, MIB, 0, U32_MAX, 2, 2 * SEC },
	{ "owe: highest rate", TOP_RATE, BURST, MIB, 0, U32_MAX, 1000, 0 },
};

static void test_owe(void **state)
{
	const struct owe_row *row = *state;
	struct jar j = new_jar(row->rate, row->burst, row->least);
	u32 i;

	j.now += row->idle;
	for (i = 0; i < row->times; i++)
		owe(&j, row->tokens);
	/* 1000 times 4 GiB at 2^63 - 1 a second: 467 ns. */
	if (row->rate == TOP_RATE)
		assert_in_range(wait(&j, 1), 460, 470);
	else
		assert_int_equal(wait(&j, 1), row->wait);
}

/* A debt from an I/O that was larger than the bucket isn't made less. */
static void test_owe_keeps_debt(void **state)
{
	struct jar j = new_jar(1000, BURST, 1);

	(void)state;
	j.now += HOUR;
	take(&j, 10000);
	assert_int_equal(wait(&j, 1), 9901 * MSEC);
	owe(&j, 50);
	assert_int_equal(wait(&j, 1), 9901 * MSEC);
}

/* --- exactness ---
 *
 * full_ns + rest / rate is when the bucket will be full, to the last bit: as an
 * integer X = full_ns * rate + rest each take is
 * X = max(X, now * rate) + tokens * 10^9.
 */
static s128 exact(const struct ioband_bucket *b)
{
	return (s128)b->full_ns * b->rate + b->rest;
}

static const struct drift_row {
	const char *name;
	u64 rate;
	u64 tokens;
} drift_rows[] = {
	{ "drift: 1/s", 1, 1 },
	{ "drift: 3/s", 3, 1 },
	{ "drift: 7/s of 4096", 7, 4096 },
	{ "drift: 999999937/s", 999999937, 1 },
	{ "drift: 999999937/s of 4096", 999999937, 4096 },
	{ "drift: 1000000007/s", 1000000007, 1 },
	{ "drift: 10^12 + 39/s", 1000000000039, 512 },
	{ "drift: 2^62 + 1/s", (1ULL << 62) + 1, 4096 },
	{ "drift: 2^63 - 1/s", TOP_RATE, 1 },
	{ "drift: 2^63 - 1/s of 4 GiB", TOP_RATE, U32_MAX },
};

static void test_drift(void **state)
{
	const u32 n = 200000;
	const struct drift_row *row = *state;
	struct jar j = new_jar(row->rate, BURST, 1);
	s128 want = exact(&j.b);
	u32 i;

	for (i = 0; i < n; i++) {
		take(&j, row->tokens);
		want += (s128)row->tokens * SEC;
		/* As each step is exact, 10^9 of them are. */
		assert_true(exact(&j.b) == want);
		assert_true(j.b.rest < j.b.rate);
	}
}

/* What is sent as soon as it may is the rate times the time, give or take 1. */
static void test_sent_at_the_rate(void **state)
{
	const struct drift_row *row = *state;
	struct jar j = new_jar(row->rate, BURST, row->tokens);
	u64 begin = j.now;
	s128 sent = 0, filled;
	u32 i;

	for (i = 0; i < 100000; i++) {
		j.now = max(j.now, ready(&j, row->tokens));
		take(&j, row->tokens);
		sent += row->tokens;
	}
	filled = (s128)row->rate * (j.now - begin) / SEC;
	/* Two nanoseconds' worth, and the size while no time has gone by. */
	assert_true(sent <= filled + (s128)(2 * row->rate / SEC) + 1);
	assert_true(sent >= filled - (s128)(2 * row->rate / SEC) - 1);
}

/* --- an exact model under random calls --- */

struct model {
	s128 x;		/* rate * time when full */
	u64 rate;
};

static s128 exact_size(const struct jar *j, u64 rate)
{
	s128 by_time = (s128)rate * j->burst;
	s128 least = (s128)j->least * SEC;

	return by_time > least ? by_time : least;
}

static s128 imax(s128 a, s128 b)
{
	return a > b ? a : b;
}

static s128 imin(s128 a, s128 b)
{
	return a < b ? a : b;
}

/* t is when an I/O may pass: exactly that, but for less than 2 ns. */
static void check_ready(const struct jar *j, const struct model *m, u64 tokens)
{
	s128 size = exact_size(j, m->rate);
	s128 cost = imin((s128)tokens * SEC, size);
	s128 t = (s128)wait(j, tokens) + j->now;
	s128 want = m->x - (size - cost);

	if (!tokens)
		want = 0;
	want = imax(want, (s128)j->now * m->rate);
	assert_true(t * m->rate > want - 2 * (s128)m->rate);
	assert_true(t * m->rate < want + (s128)m->rate);
}

static void check_set(struct jar *j, struct model *m, u64 rate, u64 burst)
{
	s128 now = j->now, had = 0, has, slack;

	if (m->rate)
		had = imax(exact_size(j, m->rate) -
			   imax(m->x - now * m->rate, 0), 0);
	set(j, rate, burst);
	if (rate) {
		has = exact_size(j, rate) -
		      imax(exact(&j->b) - now * rate, 0);
		had = imin(had, exact_size(j, rate));
		/* Either rate's time is rounded to nanoseconds. */
		slack = 3 * ((s128)m->rate + rate);
		assert_true(has >= had - slack && has <= had + slack);
	}
	m->rate = rate;
	m->x = exact(&j->b);
}

static void check_owe(struct jar *j, struct model *m, u64 tokens)
{
	s128 now = j->now;
	s128 most = imax(m->x, (now + SEC) * m->rate + exact_size(j, m->rate));
	s128 want = imin(imax(m->x, now * m->rate) + (s128)tokens * SEC, most);

	owe(j, tokens);
	m->x = exact(&j->b);
	assert_true(m->x <= want + 2 * (s128)m->rate);
	assert_true(m->x >= want - 2 * (s128)m->rate);
}

static void fuzz(u64 seed)
{
	struct sim_rand r;
	struct model m = { };
	struct jar j = { };
	u32 i;

	sim_rand_seed(&r, seed);
	j.least = sim_rand_range(&r, 0, 3) ? sim_rand_log(&r, 1, 1ULL << 31) : 0;
	j.burst = sim_rand_log(&r, MSEC, 8 * SEC);
	j.now = sim_rand_log(&r, 1, 1ULL << 60);
	check_set(&j, &m, sim_rand_log(&r, 1, 1ULL << 62), j.burst);
	for (i = 0; i < 300; i++) {
		u64 tokens = sim_rand_log(&r, 1, 1ULL << 31);

		if (!m.rate && sim_rand_range(&r, 0, 9) < 8)
			check_set(&j, &m, sim_rand_log(&r, 1, 1ULL << 62),
				  j.burst);
		switch (sim_rand_range(&r, 0, 15)) {
		case 0:
			check_set(&j, &m, sim_rand_log(&r, 1, 1ULL << 62),
				  j.burst);
			break;
		case 1:
			check_set(&j, &m, m.rate,
				  sim_rand_log(&r, MSEC, 8 * SEC));
			break;
		case 2:
			check_set(&j, &m, 0, j.burst);
			break;
		case 3:
			if (m.rate)
				check_owe(&j, &m, tokens);
			break;
		case 4 ... 8:
			j.now += sim_rand_log(&r, 1, 1ULL << 40);
			break;
		default:
			if (!m.rate)
				break;
			check_ready(&j, &m, tokens);
			/* Mostly when it may, so that time isn't used up. */
			if (wait(&j, tokens) < HOUR)
				j.now += wait(&j, tokens);
			if (wait(&j, tokens))
				break;
			take(&j, tokens);
			m.x = imax(m.x, (s128)j.now * m.rate) +
			      (s128)tokens * SEC;
			assert_true(exact(&j.b) == m.x);
		}
		if (m.rate)
			check_ready(&j, &m, tokens);
	}
}

static void test_fuzz(void **state)
{
	u64 seed;

	(void)state;
	for (seed = 1; seed <= 3000; seed++)
		fuzz(seed);
}

/* --- windows --- */

/*
 * Random I/O, each sent when it may, with pauses. In any window from one I/O
 * to another, rate * t + size + the largest is enough. While I/O waits all the
 * time, rate * t - size is there, or where an I/O is larger than that and
 * leaves a debt, rate * t - the largest.
 */
static void window(u64 seed)
{
	struct sim_rand r;
	struct jar j;
	u64 largest, rate, begin;
	s128 sent = 0, least_x, most_x, backlog = 0, size, x, slack;
	bool first = true;
	u32 i;

	sim_rand_seed(&r, seed);
	largest = sim_rand_log(&r, 1, 1ULL << 24);
	rate = sim_rand_log(&r, 1, 1ULL << 40);
	j = new_jar(rate, sim_rand_log(&r, MSEC, 8 * SEC),
		    sim_rand_range(&r, 0, 1) ? largest : 1);
	size = exact_size(&j, rate);
	slack = 4 * (s128)rate;
	begin = j.now;
	least_x = 0;
	most_x = 0;
	for (i = 0; i < 400; i++) {
		u64 tokens = sim_rand_range(&r, 1, largest);

		if (!sim_rand_range(&r, 0, 7)) {
			j.now += sim_rand_log(&r, 1, 64 * SEC);
			first = true;
		}
		j.now = max(j.now, ready(&j, tokens));
		/* x is what was sent beyond rate * t so far. */
		x = sent * SEC - (s128)rate * (j.now - begin);
		least_x = imin(least_x, x);
		take(&j, tokens);
		sent += tokens;
		x += (s128)tokens * SEC;
		most_x = imax(x, most_x);
		assert_true(x - least_x <= size + (s128)largest * SEC + slack);
		if (first) {
			backlog = x;
			first = false;
		}
		backlog = imax(backlog, x);
		assert_true(x >= backlog - slack -
			    imax(size, (s128)largest * SEC));
	}
}

static void test_windows(void **state)
{
	u64 seed;

	(void)state;
	for (seed = 1; seed <= 3000; seed++)
		window(seed);
}

int main(void)
{
	static struct harness h;

#define T(fn)	add_test(&h, #fn, fn, NULL)
	add_table(&h, test_wait, wait_rows);
	add_table(&h, test_set, set_rows);
	T(test_raise_frees);
	T(test_off_and_on);
	T(test_soon_after_boot);
	add_table(&h, test_owe, owe_rows);
	T(test_owe_keeps_debt);
	add_table(&h, test_drift, drift_rows);
	add_table(&h, test_sent_at_the_rate, drift_rows);
	T(test_fuzz);
	T(test_windows);
	return run_harness(&h, "limit");
}
