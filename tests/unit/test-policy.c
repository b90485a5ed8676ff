// SPDX-License-Identifier: GPL-2.0-only
/*
 * The scheduling core by hand: small cases whose answer is worked out in the
 * comment next to them. Groups are A, B, C, ...; all time is made up.
 */
#include "harness.h"

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "rig.h"

/* --- order of tags ---
 *
 * All groups hold plenty, one I/O goes at a time. Where tags are the same the
 * group that came to that tag first goes first. A tag's fraction is binary, so
 * where ties matter weights are powers of two, or one is twice the other.
 */
static const struct order_row {
	const char *name;
	u32 weights[4];
	u32 tokens[4];
	u32 token_base;
	const char *expect;
} order_rows[] = {
	/* A's tags 0 1 2 3 .., B's too. */
	{ "order: 100:100", { 100, 100 }, { 1, 1 }, 0, "ABABABABAB" },
	/* The worked example of the core's top comment. */
	{ "order: 200:100 as in the top comment", { 200, 100 }, { 1, 1 }, 0,
	  "ABABAAB" },
	/* A0 B0 A1, and from 2 on B comes to each even tag before A does. */
	{ "order: 200:100 goes on as two to one", { 200, 100 }, { 1, 1 }, 0,
	  "ABABAABAABAABAAB" },
	/* B came to the tag 2 before A did. */
	{ "order: 100:200", { 100, 200 }, { 1, 1 }, 0, "ABBABBABB" },
	/*
	 * Units of 1/4, steps 1, 2 and 4: A0 B0 C0 A1 B2 A2 A3, and all are at
	 * 4, where C came first, then B, then A: C4 B4 A4 A5 B6 A6 A7.
	 */
	{ "order: 4:2:1", { 4, 2, 1 }, { 1, 1, 1 }, 0, "ABCABAACBAABAACBA" },
	/* A moves by 4, B by 1. */
	{ "order: I/O of four tokens", { 128, 128 }, { 4, 1 }, 0,
	  "ABBBBABBBB" },
	/* A's weight makes up for its size. */
	{ "order: size against weight", { 400, 100 }, { 4, 1 }, 0,
	  "ABABABABAB" },
	{ "order: 32767:1", { 32767, 1 }, { 1, 1 }, 0, "ABAAAAAAAAAAAAAAAA" },
	/*
	 * T = 4 / 200, and half of it is an I/O of each. A goes on while its
	 * tag is <= 0 + 1: at 0 and 1. B from 0 to 2 + 1, A from 2 to 4 + 1.
	 */
	{ "order: burst of 4", { 100, 100 }, { 1, 1 }, 4,
	  "AABBBBAAAABBBBAAAA" },
	/*
	 * T = 3 / 300, half of it 1 in units of 1/200: A goes while its tag is
	 * <= 0 + 1: at 0 1; B (step 2) at 0 2 (<= 2 + 1) and comes to 4; A at
	 * 2 to 5 and comes to 6, B at 4 6 (<= 6 + 1).
	 */
	{ "order: burst of 3, 200:100", { 200, 100 }, { 1, 1 }, 3,
	  "AABBAAAABBAAAABB" },
};

static void test_order(void **state)
{
	const struct order_row *row = *state;
	u32 i, n = strlen(row->expect);

	for (i = 0; row->weights[i]; i++)
		;
	rig_init_at(0, 1, i, row->weights);
	rig.s.token_base = row->token_base;
	for (i = 0; i < rig.nr_groups; i++)
		hold_many(i, n, row->tokens[i]);
	assert_string_equal(send_letters(n), row->expect);
}

static void test_shares_are_exact(void **state)
{
	const char *sent;
	u32 i, a = 0;

	(void)state;
	rig_init(1, 200, 100);
	hold_many(0, 3000, 1);
	hold_many(1, 3000, 1);
	sent = send_letters(3000);
	for (i = 0; i < 3000; i++) {
		a += sent[i] == 'A';
		/* Never further off than one I/O of each: 2 * b - a <= 1 + 2 */
		assert_in_range(3 + a - 2 * (i + 1 - a), 0, 6);
	}
	assert_int_equal(a, 2000);
}

/* --- idle groups --- */

/*
 * A moved its tag, then stayed away while B moved the clock to 5000. Weights
 * 1:1 and depth 4, so a round is 4 / 2 = 2, and 2 rounds are a credit of 4.
 */
static void idle_example(void)
{
	rig_init(4, 1, 1);
	rig.s.carryover = 2;
	hold_many(1, 5001, 1);
	send_letters(5001);
	assert_int_equal(rig.s.root.tag, TAG(5000, 1));
	hold_many(1, 20, 1);
	hold_many(0, 20, 1);
	assert_int_equal(rig.g[0].tag, TAG(4996, 1));
}

static void test_idle_example_start(void **state)
{
	(void)state;
	idle_example();
}

/* "B, whose next tag is 5001, waits for five I/Os of A (4996 to 5000)" */
static void test_idle_example_wait(void **state)
{
	u32 n = 0;

	(void)state;
	idle_example();
	while (owner(send()) == 0)
		n++;
	assert_int_equal(n, 5);
	/* From there they take turns. */
	assert_string_equal(send_letters(6), "ABABAB");
}

static const struct credit_row {
	const char *name;
	u32 weights[2];
	u32 depth;
	u32 token_base;
	u32 carryover;
	u64 expect;	/* by how much A starts before the clock */
} credit_rows[] = {
	{ "credit: none", { 1, 1 }, 4, 0, 0, 0 },
	{ "credit: one round", { 1, 1 }, 4, 0, 1, TAG(2, 1) },
	{ "credit: 16 rounds", { 1, 1 }, 4, 0, 16, TAG(32, 1) },
	{ "credit: by token_base", { 100, 300 }, 4, 100, 2, 2 * TAG(100, 400) },
	{ "credit: weights count", { 32767, 1 }, 64, 0, 1, TAG(64, 32768) },
	/* No more than what it left unused: it was last here at 0. */
	{ "credit: ends at the own tag", { 1, 1 }, 4, 0, U32_MAX,
	  TAG(2999, 1) },
	/* The longest burst there is, 2^60, times 16 is 2^64. */
	{ "credit: doesn't wrap around", { 1, 1 }, 4, U32_MAX, 16,
	  TAG(2999, 1) },
};

static void test_credit(void **state)
{
	const struct credit_row *row = *state;
	u32 step = row->weights[1];

	rig_init_at(0, row->depth, 2, row->weights);
	rig.s.token_base = row->token_base;
	rig.s.carryover = row->carryover;
	/* B moves the clock by 1 with each I/O. */
	hold_many(1, 3000, step);
	send_letters(3000);
	hold(0, 1);
	assert_int_equal(-lead(0), row->expect);
}

/* A group that is ahead doesn't get rid of that by a pause. */
static void test_lead_survives_a_pause(void **state)
{
	(void)state;
	rig_init(1, 128, 128);
	hold_many(1, 5, 1);
	hold(0, 50);
	assert_string_equal(send_letters(2), "BA");
	assert_int_equal(lead(0), TAG(50, 128));
	hold(0, 1);
	assert_string_equal(send_letters(4), "BBBB");
	hold_many(1, 60, 1);
	/* B goes from 5 to 50, where A came first. */
	assert_string_equal(send_letters(46) + 40, "BBBBBA");
}

/*
 * The bound of the theory, also where all that it is made of comes together:
 * T is 100 / 4. A has a credit of T, B is charged T / 2 for what went
 * straight, and a burst is T / 2 again. From the first I/O on, A may be 2 T
 * and an I/O of each ahead of B.
 */
static void test_two_bursts_at_most(void **state)
{
	u32 n = 0;

	(void)state;
	rig_init(4, 1, 1, 2);
	rig.s.token_base = 100;
	hold_many(2, 200, 1);
	send_letters(200);
	ioband_charge(&rig.g[1], 1000);
	hold_many(0, 200, 1);
	hold_many(1, 200, 1);
	while (owner(send()) == 0)
		n++;
	assert_in_range(n, 1, 2 * 25 + 2);
}

/* --- changes of weight --- */

/*
 * Ten I/Os bring both to 5 (in units of 1/100) and the clock to 4. A's lead of
 * one token is 1/2 at weight 200: it starts at 4.5 and comes to 5 after B did.
 */
static void test_weight_change(void **state)
{
	(void)state;
	rig_init(1, 100, 100);
	hold_many(0, 100, 1);
	hold_many(1, 100, 1);
	assert_string_equal(send_letters(10), "ABABABABAB");
	set_weight(0, 200);
	assert_int_equal(rig.s.root.weights, 300);
	assert_string_equal(send_letters(13), "ABAABAABAABAA");
	set_weight(0, 100);
	assert_int_equal(rig.s.root.weights, 200);
	assert_string_equal(send_letters(8) + 1, "ABABABA");
}

static const struct reweigh_row {
	const char *name;
	u32 from, to;
	s64 before, after;
} reweigh_rows[] = {
	{ "reweigh: lead in tokens stays, heavier", 100, 200, TAG(10, 100),
	  TAG(10, 200) },
	{ "reweigh: lead in tokens stays, lighter", 32767, 1, TAG(32767, 32767),
	  TAG(32767, 1) },
	{ "reweigh: no lead", 100, 1, 0, 0 },
	{ "reweigh: the longest lead", 32767, 1, 1LL << 60, 1LL << 60 },
	{ "reweigh: to the longest lead", 32767, 1, 1LL << 50, 1LL << 60 },
	{ "reweigh: the longest lead shrinks", 1, 32767, 1LL << 60,
	  (1LL << 60) / 32767 },
	/* A lag is the credit of a pause, in rounds of all: it isn't its own. */
	{ "reweigh: lag stays as it is, heavier", 100, 200, -(s64)TAG(10, 100),
	  -(s64)TAG(10, 100) },
	{ "reweigh: lag stays as it is, lighter", 200, 100, -(s64)TAG(10, 100),
	  -(s64)TAG(10, 100) },
};

static void test_reweigh(void **state)
{
	const struct reweigh_row *row = *state;
	int queued;

	for (queued = 0; queued < 2; queued++) {
		rig_init(1, row->from, 100);
		rig.s.root.tag = 1ULL << 61;
		rig.g[0].tag = rig.s.root.tag + row->before;
		rig.g[1].tag = rig.s.root.tag;
		rig.s.carryover = U32_MAX;
		rig.s.token_base = U32_MAX;
		hold(1, 1);
		if (queued)
			hold(0, 1);
		set_weight(0, row->to);
		assert_int_equal(lead(0), row->after);
		assert_int_equal(rig.s.root.weights, row->to + 100);
		if (queued && row->after)
			assert_int_equal(owner(send()), row->after > 0);
	}
}

static void test_inactive_groups_weigh_nothing(void **state)
{
	(void)state;
	rig_init(1, 100, 200);
	assert_int_equal(rig.s.root.weights, 300);
	ioband_share_activate(&rig.g[0]);
	assert_int_equal(rig.s.root.weights, 300);
	ioband_share_deactivate(&rig.g[0]);
	ioband_share_deactivate(&rig.g[0]);
	assert_int_equal(rig.s.root.weights, 200);
	set_weight(0, 1000);
	assert_int_equal(rig.s.root.weights, 200);
	rig.s.root.tag = TAG(77, 1);
	ioband_share_activate(&rig.g[0]);
	assert_int_equal(rig.s.root.weights, 1200);
	assert_int_equal(lead(0), 0);
}

/* A group may go away in the middle of its burst and of being awaited. */
static void test_deactivate_forgets(void **state)
{
	struct ioband_req *r;

	(void)state;
	rig_init(1, 100, 100);
	rig.s.token_base = 100;
	rig.s.service_ns = MSEC;
	rig.g[0].think_ns = USEC;
	r = hold_as(0, IOBAND_READ, BE, 1, true);
	assert_ptr_equal(send(), r);
	done(r);
	assert_false(list_empty(&rig.s.returning));
	assert_ptr_equal(rig.s.batch, &rig.g[0]);
	ioband_share_deactivate(&rig.g[0]);
	assert_true(list_empty(&rig.s.returning));
	assert_null(rig.s.batch);
	memset(&rig.g[0], 0xff, sizeof(rig.g[0]));
	hold(1, 1);
	assert_string_equal(send_letters(2), "B-");
}

/* --- tags wrap around --- */

static const struct wrap_row {
	const char *name;
	u64 first_tag;
} wrap_rows[] = {
	{ "wrap: near 2^32", (1ULL << 32) - TAG(1, 100) },
	{ "wrap: near 2^60", (1ULL << 60) - TAG(3, 100) },
	{ "wrap: near 2^63", (1ULL << 63) - TAG(3, 100) },
	{ "wrap: one before 2^63", (1ULL << 63) - 1 },
	{ "wrap: near 2^64", -TAG(3, 100) },
	{ "wrap: one before 2^64", -1ULL },
};

static const u32 wrap_weights[][3] = {
	{ 200, 100, 100 },
	{ 1, 32767, 300 },
};

/* Wherever the clock stands, the order is the same as from 0. */
static void test_wrap(void **state)
{
	const struct wrap_row *row = *state;
	const u32 n = 300;
	char from_zero[301];
	u32 i, k, token_base;

	for (i = 0; i < ARRAY_SIZE(wrap_weights); i++) {
		for (token_base = 0; token_base <= 40; token_base += 40) {
			for (k = 0; k < 2; k++) {
				rig_init_at(k ? row->first_tag : 0, 4, 3,
					    wrap_weights[i]);
				rig.s.token_base = token_base;
				hold_many(0, n, 1);
				hold_many(1, n, 3);
				hold_many(2, n / 2, 7);
				if (!k)
					memcpy(from_zero, send_letters(n), n + 1);
			}
			assert_string_equal(send_letters(n), from_zero);
			/* C came back from a pause by now in the long rows. */
			assert_in_range(rig.s.root.tag - row->first_tag, 1,
					TAG_LIMIT);
		}
	}
}

/*
 * B sends one I/O and pauses while A, at weight 1 and with the largest I/O
 * there is, moves the clock by 2^55 each time: by 2^63 after 256 times, and
 * once around after 512. Whenever B returns, it is behind the clock by its
 * credit, and next.
 */
static void test_long_pause(void **state)
{
	static const u32 weights[] = { 1, 100, IOBAND_WEIGHT_MAX };
	u32 i, n, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(weights); i++) {
		for (n = 1; n < 700; n += 13) {
			rig_init(1, 1, weights[i]);
			hold(1, 1);
			send();
			for (k = 0; k < n; k++) {
				hold(0, IOBAND_MAX_TOKENS);
				assert_string_equal(send_letters(1), "A");
			}
			hold(0, 1);
			hold(1, 1);
			if (n > 1)
				assert_int_equal(-lead(1), TAG(1, rig.s.root.weights));
			assert_string_equal(send_letters(2), "BA");
		}
	}
}

/* The same while B is ahead: its lead is used up, then it is behind. */
static void test_long_pause_after_a_lead(void **state)
{
	u32 k;

	(void)state;
	rig_init(1, 1, 1);
	hold(1, IOBAND_MAX_TOKENS);
	send();
	for (k = 0; k < 700; k++) {
		hold(0, IOBAND_MAX_TOKENS / 2);
		send();
		assert_in_range(lead(1) + TAG_LIMIT, 0, 2 * TAG_LIMIT);
	}
	hold_many(0, 2, 1);
	hold(1, 1);
	assert_string_equal(send_letters(2), "BA");
}

/* --- extremes: nothing overflows (UBSan, and the division that traps) --- */

static const u32 extreme[] = { 0, 1, 32767, 1U << 31, U32_MAX };
static const u32 extreme_tokens[] = { 1, 3, IOBAND_MAX_TOKENS };

static void check_leads(void)
{
	u32 i;

	for (i = 0; i < rig.nr_groups; i++)
		assert_in_range(lead(i) + TAG_LIMIT, 0, 2 * TAG_LIMIT);
}

static void charge_any(u32 group, bool debt)
{
	if (debt)
		charge_debt(group, IOBAND_MAX_TOKENS);
	else
		ioband_charge(&rig.g[group], ~0ULL);
}

static void try_extremes(u32 depth, u32 token_base, u32 carryover, u32 tokens)
{
	u32 i, n = 0;

	rig_init(depth ?: 1, IOBAND_WEIGHT_MIN, IOBAND_WEIGHT_MAX, 100);
	rig.s.token_base = token_base;
	rig.s.carryover = carryover;
	for (i = 0; i < 40; i++) {
		rig.now += 1ULL << (i + 3);
		hold(0, tokens);
		if (i % 3 == 0)
			hold(1, IOBAND_MAX_TOKENS);
		if (i % 5 == 0)
			charge_any(2, i & 1);
		if (i % 7 == 0)
			hold(2, 1);
		if (i % 11 == 0)
			set_weight(i % 3, i & 1 ? IOBAND_WEIGHT_MAX :
							IOBAND_WEIGHT_MIN);
		if (i % 4 < 2 && send())
			n++;
		check_leads();
	}
	while (rig.s.held) {
		assert_non_null(send());
		n++;
		check_leads();
	}
	assert_int_equal(n, rig.nr_reqs);
	assert_null(send());
}

static void test_extremes(void **state)
{
	u32 a, b, c, d;

	(void)state;
	for (a = 0; a < ARRAY_SIZE(extreme); a++)
		for (b = 0; b < ARRAY_SIZE(extreme); b++)
			for (c = 0; c < ARRAY_SIZE(extreme); c++)
				for (d = 0; d < ARRAY_SIZE(extreme_tokens); d++)
					try_extremes(extreme[a], extreme[b],
						     extreme[c],
						     extreme_tokens[d]);
}

/* --- draining --- */

static void test_drain(void **state)
{
	static const struct { u8 dir, prio; } io[] = {
		{ IOBAND_WRITE, IDLE }, { IOBAND_READ, BE },
		{ IOBAND_READ, 0 }, { IOBAND_WRITE, 0 },
		{ IOBAND_READ, IDLE }, { IOBAND_WRITE, BE },
	};
	struct ioband_req *held[ARRAY_SIZE(io)];
	u64 tag;
	u32 i, round;

	(void)state;
	rig_init(1, 100, 100);
	for (round = 0; round < 2; round++) {
		hold(1, 1);
		for (i = 0; i < ARRAY_SIZE(io); i++)
			held[i] = hold_as(0, io[i].dir, io[i].prio, 5, true);
		tag = rig.g[0].tag;
		/* In order of arrival whatever the priority, at no charge. */
		for (i = 0; i < ARRAY_SIZE(io); i++)
			assert_ptr_equal(ioband_drain(&rig.g[0]), held[i]);
		assert_null(ioband_drain(&rig.g[0]));
		assert_int_equal(rig.g[0].tag, tag);
		assert_int_equal(rig.g[0].held, 0);
		assert_int_equal(rig.s.held, 1);
		assert_string_equal(send_letters(2), "B-");
		assert_int_equal(rig.s.held, 0);
	}
}

/* --- inside a group --- */

/* I/Os as "direction priority tokens" in order of arrival, then the order. */
static const struct inside_row {
	const char *name;
	const char *held;
	const char *expect;
} inside_rows[] = {
	{ "inside: reads in order of arrival", "r8 r8 r8 r8", "0123" },
	{ "inside: writes in order of arrival", "w8 w8 w8 w8", "0123" },
	{ "inside: real time, best effort, idle", "r16 r8 r0 r7 r15 r16 r8 r0",
	  "27316405" },
	{ "inside: the same for writes", "w16 w8 w0 w7 w15 w16 w8 w0",
	  "27316405" },
	{ "inside: priority is above direction", "r16 w8 r8 w0 r0 w16",
	  "432105" },
	{ "inside: reads and writes take turns", "r8 r8 r8 r8 w8 w8 w8 w8",
	  "04152637" },
	{ "inside: also when writes came first", "w8 w8 w8 r8 r8 r8",
	  "304152" },
	/* r 4, w 4, a tie: r again. */
	{ "inside: turns count tokens", "r8*4 r8*4 w8 w8 w8 w8 w8 w8 w8 w8",
	  "0234516789" },
};

static void test_inside(void **state)
{
	const struct inside_row *row = *state;
	const char *p = row->held;
	char got[32] = "";
	char dir;
	u32 prio, tokens, n = 0;
	int len;

	rig_init(1, 100);
	while (sscanf(p, " %c%u%n", &dir, &prio, &len) == 2) {
		p += len;
		tokens = 1;
		if (sscanf(p, "*%u%n", &tokens, &len) == 1)
			p += len;
		hold_as(0, dir == 'w', prio, tokens, false);
		n++;
	}
	assert_int_equal(n, strlen(row->expect));
	for (prio = 0; prio < n; prio++)
		got[prio] = '0' + (send() - rig.reqs);
	assert_string_equal(got, row->expect);
}

/* The directions of the next @n I/Os. */
static const char *send_dirs(u32 n)
{
	static char buf[256];
	u32 i;

	for (i = 0; i < n; i++)
		buf[i] = send()->dir == IOBAND_READ ? 'r' : 'w';
	buf[n] = '\0';
	return buf;
}

static void hold_dir(u8 dir, u32 n)
{
	while (n--)
		hold_as(0, dir, BE, 1, false);
}

/* 100 reads went while there was no write. Writes don't catch up on that. */
static void test_idle_direction_hoards_nothing(void **state)
{
	(void)state;
	rig_init(1, 100);
	hold_dir(IOBAND_READ, 120);
	send_dirs(100);
	hold_dir(IOBAND_WRITE, 20);
	assert_non_null(strstr(send_dirs(8), "rwrwrw"));
}

/* The same when there was a moment with nothing held in between. */
static void test_idle_direction_hoards_nothing_over_a_pause(void **state)
{
	u8 first;

	for (first = IOBAND_READ; first <= IOBAND_WRITE; first++) {
		(void)state;
		rig_init(1, 100);
		hold_dir(!first, 100);
		send_dirs(100);
		hold_dir(first, 20);
		hold_dir(!first, 20);
		assert_non_null(strstr(send_dirs(8), "rwrwrw"));
	}
}

/* An idle-class write under a flood of real-time reads. */
static void test_oldest_goes_once_a_second(void **state)
{
	struct ioband_req *old[3];
	u64 begin;
	u32 i, gone = 0;

	(void)state;
	rig_init(1, 100);
	begin = rig.now;
	for (i = 0; i < 3; i++)
		old[i] = hold_as(0, IOBAND_WRITE, IDLE, 1, false);
	for (i = 0; gone < 3; i++) {
		struct ioband_req *r;

		hold_as(0, IOBAND_READ, 0, 1, false);
		rig.now += 10 * MSEC;
		r = send();
		if (r == old[gone]) {
			gone++;
			/* One a second, neither sooner nor later. */
			assert_in_range(rig.now - begin, gone * SEC,
					gone * SEC + 10 * MSEC);
		} else {
			assert_int_equal(r->prio, 0);
		}
		assert_true(i < 400);
	}
}

/* --- depth --- */

static void test_depth(void **state)
{
	(void)state;
	rig_init(3, 100);
	hold(0, 1);
	assert_non_null(peek(0));
	assert_non_null(peek(2));
	assert_null(peek(3));
	assert_null(peek(4));
	assert_null(peek(U32_MAX));
	ioband_sched_set_depth(&rig.s, 5);
	assert_non_null(peek(4));
	ioband_sched_set_depth(&rig.s, 1);
	assert_null(peek(1));
	assert_non_null(peek(0));
	/* Looking took nothing. */
	assert_int_equal(rig.s.held, 1);
}

/* --- charges for what went straight --- */

static const struct charge_row {
	const char *name;
	u32 token_base;
	s64 before;
	u64 tokens;
	s64 expect;
} charge_rows[] = {
	/* Depth 8, weights 100 + 100: half of the burst is 4 / 200 = 2 / 100. */
	{ "charge: nothing", 0, 0, 0, 0 },
	{ "charge: below half of the burst", 0, 0, 1, TAG(1, 100) },
	{ "charge: up to half of the burst", 0, 0, 2, TAG(2, 100) },
	{ "charge: no more than that", 0, 0, 1000, TAG(4, 200) },
	{ "charge: any number", 0, 0, ~0ULL, TAG(4, 200) },
	{ "charge: token_base", 100, 0, 1000, TAG(50, 200) },
	{ "charge: adds to a lead", 100, TAG(5, 100), 10,
	  TAG(5, 100) + TAG(10, 100) },
	/* A lead from before stays, but grows no further. */
	{ "charge: a longer lead stays", 0, TAG(50, 100), 10, TAG(50, 100) },
	/* What the group left unused isn't there to be used up now. */
	{ "charge: a lag is no credit", 100, -(s64)TAG(5, 100), 10,
	  TAG(10, 100) },
};

static void test_charge(void **state)
{
	const struct charge_row *row = *state;
	u64 first;

	for (first = 0; first < 4; first++) {
		const u32 weights[] = { 100, 100 };

		rig_init_at((first << 62) - 1, 8, 2, weights);
		rig.s.token_base = row->token_base;
		rig.g[0].tag += row->before;
		ioband_charge(&rig.g[0], row->tokens);
		assert_int_equal(lead(0), row->expect);
		assert_int_equal(lead(1), 0);
	}
}

/* A charge puts a group that holds I/O in its new place at once. */
static void test_charge_while_held(void **state)
{
	(void)state;
	rig_init(8, 128, 128);
	hold_many(0, 4, 1);
	hold_many(1, 4, 1);
	ioband_charge(&rig.g[0], 2);
	assert_string_equal(send_letters(6), "BBABAB");
}

/*
 * 1000 I/Os a second of weight 100 alone: the clock moves by 10 tokens per
 * weight and second, and so much debt there may be, however large the I/O.
 */
static void test_debt(void **state)
{
	s64 want = TAG(1000, 100);
	u32 i;

	(void)state;
	rig_init(4, 100, 100);
	hold_many(0, 5000, 1);
	for (i = 0; i < 1500; i++) {
		rig.now += MSEC;
		assert_int_equal(owner(send()), 0);
	}
	charge_debt(1, 50);
	assert_int_equal(lead(1), TAG(50, 100));
	charge_debt(1, IOBAND_MAX_TOKENS);
	assert_in_range(lead(1), want - want / 50, want + want / 50);
	/* Paid off in a second, to the I/O. */
	hold(1, 1);
	for (i = 0; rig.g[1].held; i++) {
		rig.now += MSEC;
		assert_non_null(send());
	}
	assert_in_range(i, 980, 1021);
}

/* --- awaiting those who return ---
 *
 * An I/O takes 1 ms, A thinks for 20 us: an I/O of A is awaited for
 * 4 * 20 + 10 = 90 us.
 */
#define AWAIT	(90 * USEC)

static struct ioband_req *sent_by(u32 group, bool sync)
{
	struct ioband_req *r = new_req(group, IOBAND_READ, BE, 1, sync);

	/* As ioband_take() would have left it. */
	r->sent_ns = rig.now - MSEC;
	return r;
}

static void await_init(u32 depth)
{
	rig_init(depth, 100, 100);
	rig.s.service_ns = MSEC;
	rig.s.root.tag = TAG(8, 100);
	rig.g[0].think_ns = 20 * USEC;
	rig.g[0].tokens_last = 1;
	rig.g[0].tag = 7 * TAG(1, 100);
	rig.g[1].tag = 9 * TAG(1, 100);
	rig.g[1].tokens_last = 1;
}

/*
 * The worked example of the top comment, in units of A's step: the next tags of
 * A are 7, 8 and 9, B's 9 and 11.
 */
static void test_await_example(void **state)
{
	u32 i, in_flight = 0;
	struct ioband_req *r;

	(void)state;
	rig_init(4, 200, 100);
	rig.s.service_ns = MSEC;
	rig.s.root.tag = TAG(8, 200);
	rig.g[0].think_ns = 20 * USEC;
	rig.g[0].tokens_last = 1;
	rig.g[0].tag = 7 * TAG(1, 200);
	rig.g[1].tag = 9 * TAG(1, 200);
	for (i = 0; i < 3; i++)
		done(sent_by(0, true));
	done(sent_by(1, false));
	hold_many(1, 10, 1);
	/* "two slots are kept, and B's goes" */
	r = peek(in_flight);
	assert_non_null(r);
	assert_int_equal(owner(r), 1);
	take(r);
	in_flight++;
	/* "All three precede B's second: it waits" */
	assert_null(peek(in_flight));
	rig.now += 20 * USEC;
	for (i = 0; i < 3; i++)
		hold_as(0, IOBAND_READ, BE, 1, true);
	for (; (r = peek(in_flight)); in_flight++) {
		assert_int_equal(owner(r), 0);
		take(r);
	}
	assert_int_equal(in_flight, 4);
	/* And then it is B's second. */
	assert_int_equal(owner(peek(0)), 1);
}

/* Depth 1, one I/O of A completed, B holds more: what happens next? */
static const struct await_row {
	const char *name;
	u64 think_ns;
	u64 service_ns;
	s32 a_tag;		/* B's is 9 */
	bool async;
	bool charged;
	u64 expect_ns;		/* how long A is awaited, 0: not at all */
} await_rows[] = {
	{ "await: who is behind", 20 * USEC, MSEC, 7, false, false, AWAIT },
	{ "await: not who is ahead", 20 * USEC, MSEC, 10, false, false, 0 },
	{ "await: not who is level", 20 * USEC, MSEC, 9, false, false, 0 },
	{ "await: not who doesn't wait for his I/O", 20 * USEC, MSEC, 7, true,
	  false, 0 },
	{ "await: not strangers", 0, MSEC, 7, false, false, 0 },
	{ "await: who thinks for 1/8 of an I/O", 125 * USEC, MSEC, 7, false,
	  false, MSEC / 4 },
	{ "await: not who thinks for longer", 126 * USEC, MSEC, 7, false,
	  false, 0 },
	{ "await: 1/4 of an I/O at most", 80 * USEC, MSEC, 7, false, false,
	  MSEC / 4 },
	{ "await: not on an unknown disk", 20 * USEC, 0, 7, false, false, 0 },
	/* What went straight hides who comes back. */
	{ "await: not after uncontended times", 20 * USEC, MSEC, 7, false,
	  true, 0 },
};

static void test_await(void **state)
{
	const struct await_row *row = *state;
	struct ioband_req *r, *b;
	u64 until, begin;

	await_init(1);
	rig.g[0].think_ns = row->think_ns;
	rig.s.service_ns = row->service_ns;
	rig.g[0].tag = row->a_tag * TAG(1, 100);
	r = sent_by(0, !row->async);
	/* Its time in the disk shall not change the mean. */
	r->sent_ns = row->service_ns ? rig.now - row->service_ns : 0;
	b = hold(1, 1);
	done(r);
	if (row->charged)
		ioband_charge(&rig.g[0], 0);
	begin = rig.now;
	r = ioband_peek(&rig.s, 0, rig.now, &until);
	if (!row->expect_ns) {
		assert_ptr_equal(r, b);
		assert_int_equal(until, 0);
		return;
	}
	assert_null(r);
	assert_int_equal(until, begin + row->expect_ns);
	rig.now = until - 1;
	assert_null(ioband_peek(&rig.s, 0, rig.now, &until));
	assert_int_equal(until, begin + row->expect_ns);
	rig.now = until;
	assert_ptr_equal(ioband_peek(&rig.s, 0, rig.now, &until), b);
	assert_int_equal(until, 0);
	assert_int_equal(rig.s.lost_ns, row->expect_ns);
	assert_int_equal(rig.s.idles, 1);
}

/* Back in time, it goes first, and what was lost is the time until then. */
static void test_await_comes_back(void **state)
{
	struct ioband_req *a;

	(void)state;
	await_init(1);
	hold(1, 1);
	done(sent_by(0, true));
	assert_null(peek(0));
	rig.now += 30 * USEC;
	a = hold_as(0, IOBAND_READ, BE, 1, true);
	assert_ptr_equal(send(), a);
	assert_int_equal(rig.s.lost_ns, 30 * USEC);
	/* The mean moved from 20 by 1/8 of the way to 30. */
	assert_int_equal(rig.g[0].think_ns, 21250);
}

/*
 * Who left for a second counts as 2 I/Os' time, 2 ms, in the mean thinking
 * time: 20 us + 1980 us / 8 = 267.5 us. The next one, who came back after
 * 30 us, lowers that by 237.5 us / 8.
 */
static void test_long_pause_is_one_sample(void **state)
{
	(void)state;
	await_init(4);
	done(sent_by(0, true));
	rig.now += SEC;
	done(sent_by(0, true));
	rig.now += 30 * USEC;
	hold_as(0, IOBAND_READ, BE, 1, true);
	assert_int_equal(rig.g[0].done_nr, 0);
	assert_in_range(rig.g[0].think_ns, 237812, 237813);
}

/* A slot is kept for an I/O, not the disk for a group. */
static void test_await_leaves_other_slots(void **state)
{
	(void)state;
	await_init(4);
	hold_many(1, 10, 1);
	done(sent_by(0, true));
	assert_non_null(peek(0));
	assert_non_null(peek(2));
	assert_null(peek(3));
}

/* Three I/Os of A are awaited, at 7, 8 and 9: only two precede B's at 9. */
static void test_await_only_what_precedes(void **state)
{
	(void)state;
	await_init(3);
	hold_many(1, 10, 1);
	done(sent_by(0, true));
	done(sent_by(0, true));
	done(sent_by(0, true));
	assert_non_null(peek(0));
	assert_null(peek(1));
	/* With larger I/O the second is at 9, too. */
	rig.g[0].tokens_last = 2;
	assert_non_null(peek(1));
	assert_null(peek(2));
}

/* Two slots become free one after the other, A is awaited for both. */
static void test_lost_time_counts_each_slot(void **state)
{
	(void)state;
	await_init(4);
	rig.g[0].tag = TAG(1, 100);
	hold_many(1, 10, 1);
	done(sent_by(0, true));
	assert_null(peek(3));
	rig.now += 10 * USEC;
	done(sent_by(0, true));
	assert_null(peek(2));
	rig.now += 10 * USEC;
	done(sent_by(0, true));
	assert_null(peek(1));
	rig.now += 10 * USEC;
	hold_as(0, IOBAND_READ, BE, 1, true);
	hold_as(0, IOBAND_READ, BE, 1, true);
	hold_as(0, IOBAND_READ, BE, 1, true);
	take(peek(1));
	take(peek(2));
	take(peek(3));
	assert_null(peek(4));
	assert_int_equal(rig.s.lost_ns, (10 + 20 + 30) * USEC);
}

/* All is drained while a slot is kept: that doesn't go on being lost time. */
static void test_lost_time_ends_at_drain(void **state)
{
	(void)state;
	await_init(1);
	hold(1, 1);
	done(sent_by(0, true));
	assert_null(peek(0));
	rig.now += 10 * USEC;
	assert_non_null(ioband_drain(&rig.g[1]));
	assert_null(ioband_drain(&rig.g[0]));
	rig.now += 3600 * SEC;
	hold(1, 1);
	peek(0);
	assert_in_range(rig.s.lost_ns, 0, MSEC);
}

/*
 * A never comes back. 16 I/Os' time and 1/50 of the time in use may be lost,
 * then nobody is awaited; after 50 times of 16 ms in use there is room again.
 */
static void test_await_budget(void **state)
{
	u64 busy;
	u32 i, n;

	(void)state;
	await_init(1);
	hold_many(1, 3, 1);
	for (i = 0; i < 10000; i++) {
		done(sent_by(0, true));
		rig.g[0].think_ns = 20 * USEC;
		if (peek(0))
			break;
		rig.now += AWAIT;
		assert_non_null(peek(0));
		assert_in_range(rig.s.lost_ns, 1, 16 * MSEC +
				rig.s.busy_ns / 50 + AWAIT);
	}
	assert_in_range(i, 16 * MSEC / AWAIT, 16 * MSEC / (AWAIT - 20 * USEC) + 1);
	busy = rig.s.busy_ns;
	for (n = 0; n < 100; n++) {
		done(sent_by(1, false));
		done(sent_by(0, true));
		if (!peek(0))
			break;
	}
	/* Each I/O is worth 20 us of waiting, less than one AWAIT is owed. */
	assert_in_range(rig.s.busy_ns - busy, MSEC, 50 * AWAIT);
}

/* Slots are kept for who will get them, also within a burst. */
static void test_await_within_a_burst(void **state)
{
	struct ioband_req *r;

	(void)state;
	await_init(1);
	rig.s.token_base = 100;
	hold_many(1, 10, 1);
	r = send();
	assert_int_equal(owner(r), 1);
	/* B goes on for long if A holds something, ... */
	hold_as(0, IOBAND_READ, BE, 1, false);
	assert_int_equal(owner(peek(0)), 1);
	ioband_drain(&rig.g[0]);
	/* ... so nothing is gained by waiting for A. */
	done(sent_by(0, true));
	assert_non_null(peek(0));
}

/* More completions than are remembered, none followed by an arrival. */
static void test_returns_overflow(void **state)
{
	u32 i;

	(void)state;
	await_init(64);
	rig.g[1].tag = TAG(100, 100);
	rig.s.carryover = U32_MAX;
	hold(1, 1);
	for (i = 0; i < 3 * IOBAND_MAX_RETURNS; i++) {
		done(sent_by(0, true));
		rig.now += 100;
	}
	assert_int_equal(rig.g[0].done_nr, IOBAND_MAX_RETURNS);
	/* So many slots are kept and no more. */
	assert_null(peek(64 - IOBAND_MAX_RETURNS));
	assert_non_null(peek(64 - IOBAND_MAX_RETURNS - 1));
	rig.now += SEC;
	assert_non_null(peek(63));
	assert_true(list_empty(&rig.s.returning));
	hold_as(0, IOBAND_READ, BE, 1, true);
	assert_int_equal(rig.g[0].done_nr, 0);
}

/* --- figures for status --- */

/* Depth 4, weights 1 + 1: four I/Os are a round, however they are split. */
static void test_rounds(void **state)
{
	(void)state;
	rig_init(4, 1, 1);
	hold_many(0, 100, 1);
	hold_many(1, 100, 1);
	send_letters(200);
	assert_in_range(rig.s.rounds, 49, 50);
}

/* --- policies --- */

static void test_policy_table(void **state)
{
	const struct ioband_policy *p = NULL, *q;
	u32 values[IOBAND_MAX_PARAMS];
	struct ioband_claim claim;
	u32 i, n = 0;

	(void)state;
	while ((p = ioband_policy_next(p))) {
		n++;
		assert_true(n < 100);
		assert_non_null(p->name);
		assert_ptr_equal(ioband_policy_find(p->name), p);
		for (q = NULL; (q = ioband_policy_next(q)) != p;)
			assert_string_not_equal(p->name, q->name);
		assert_in_range(p->nr_params, 0, IOBAND_MAX_PARAMS);
		for (i = 0; i < p->nr_params; i++) {
			assert_non_null(p->params[i].name);
			assert_in_range(p->params[i].def, p->params[i].min,
					p->params[i].max);
			values[i] = p->params[i].def;
		}
		if (p->check)
			assert_null(p->check(values));
		memset(&claim, 0, sizeof(claim));
		p->claim(values, &claim);
		assert_in_range(claim.weight, IOBAND_WEIGHT_MIN,
				IOBAND_WEIGHT_MAX);
		/* Who asks for nothing is neither favoured nor held back. */
		assert_int_equal(claim.min_bps, 0);
		assert_int_equal(claim.max_bps, 0);
		assert_in_range(p->unit, 1, IOBAND_MAX_TOKENS);
		/* Also a discard, which has no data, costs something. */
		assert_in_range(p->cost(0, 1), 1, p->unit);
		assert_in_range(p->cost(1, 1), 1, p->unit);
		assert_in_range(p->cost(8, 1), p->unit, p->unit);
		assert_in_range(p->cost(IOBAND_MAX_TOKENS, 1), 1,
				IOBAND_MAX_TOKENS);
	}
	assert_in_range(n, 1, 100);
	assert_ptr_equal(ioband_policy_find("default"),
			 ioband_policy_next(NULL));
	assert_null(ioband_policy_find("nonsense"));
	assert_null(ioband_policy_find(""));
	assert_null(ioband_policy_find("Weight"));
	assert_null(ioband_policy_find("weigh"));
}

static void test_policy_weight(void **state)
{
	const struct ioband_policy *p = ioband_policy_find("weight");
	struct ioband_claim claim = { };
	u32 value = 123;

	(void)state;
	assert_non_null(p);
	assert_int_equal(p->nr_params, 1);
	assert_int_equal(p->params[0].min, IOBAND_WEIGHT_MIN);
	assert_int_equal(p->params[0].max, IOBAND_WEIGHT_MAX);
	assert_int_equal(p->params[0].def, IOBAND_WEIGHT_DEFAULT);
	p->claim(&value, &claim);
	assert_int_equal(claim.weight, 123);
	/* It counts requests, not bytes. */
	assert_int_equal(p->cost(8, 1), 1);
	assert_int_equal(p->cost(2048, 1), 1);
	assert_int_equal(p->cost(2048, 4), 4);
}

static void test_policy_weight_iosize(void **state)
{
	const struct ioband_policy *p = ioband_policy_find("weight-iosize");
	struct ioband_claim claim = { };
	u32 value = 32767;

	(void)state;
	assert_non_null(p);
	assert_int_equal(p->nr_params, 1);
	assert_int_equal(p->params[0].min, IOBAND_WEIGHT_MIN);
	assert_int_equal(p->params[0].max, IOBAND_WEIGHT_MAX);
	assert_int_equal(p->params[0].def, IOBAND_WEIGHT_DEFAULT);
	p->claim(&value, &claim);
	assert_int_equal(claim.weight, 32767);
	/* It counts sectors, not requests, and one at least. */
	assert_int_equal(p->cost(8, 1), 8);
	assert_int_equal(p->cost(2048, 4), 2048);
	assert_int_equal(p->cost(0, 4), 1);
}

static const struct range_row {
	const char *name;
	u32 params[2];
	bool refused;
	u64 min_bps, max_bps;
} range_rows[] = {
	{ "range-bw: 0:0 is best effort", { 0, 0 }, false, 0, 0 },
	{ "range-bw: maximum only", { 0, 500 }, false, 0, 512000 },
	{ "range-bw: both", { 100, 500 }, false, 102400, 512000 },
	{ "range-bw: both the same", { 100, 100 }, false, 102400, 102400 },
	{ "range-bw: the largest", { U32_MAX, U32_MAX }, false,
	  4398046510080, 4398046510080 },
	{ "range-bw: minimum without maximum", { 100, 0 }, true, 0, 0 },
	{ "range-bw: maximum below minimum", { 100, 99 }, true, 0, 0 },
};

static void test_policy_range(void **state)
{
	const struct ioband_policy *p = ioband_policy_find("range-bw");
	const struct range_row *row = *state;
	struct ioband_claim claim = { };

	assert_non_null(p);
	assert_int_equal(p->nr_params, 2);
	assert_int_equal(p->cost(8, 1), 8);
	if (row->refused) {
		assert_non_null(p->check(row->params));
		return;
	}
	assert_null(p->check(row->params));
	p->claim(row->params, &claim);
	assert_int_equal(claim.weight, IOBAND_WEIGHT_DEFAULT);
	assert_int_equal(claim.min_bps, row->min_bps);
	assert_int_equal(claim.max_bps, row->max_bps);
}

int main(void)
{
	static struct harness h;

#define T(fn)	add_test(&h, #fn, fn, NULL)
	add_table(&h, test_order, order_rows);
	T(test_shares_are_exact);
	T(test_idle_example_start);
	T(test_idle_example_wait);
	add_table(&h, test_credit, credit_rows);
	T(test_lead_survives_a_pause);
	T(test_two_bursts_at_most);
	T(test_weight_change);
	add_table(&h, test_reweigh, reweigh_rows);
	T(test_inactive_groups_weigh_nothing);
	T(test_deactivate_forgets);
	add_table(&h, test_wrap, wrap_rows);
	T(test_long_pause);
	T(test_long_pause_after_a_lead);
	T(test_extremes);
	T(test_drain);
	add_table(&h, test_inside, inside_rows);
	T(test_idle_direction_hoards_nothing);
	T(test_idle_direction_hoards_nothing_over_a_pause);
	T(test_oldest_goes_once_a_second);
	T(test_depth);
	add_table(&h, test_charge, charge_rows);
	T(test_charge_while_held);
	T(test_debt);
	add_table(&h, test_await, await_rows);
	T(test_await_example);
	T(test_await_comes_back);
	T(test_long_pause_is_one_sample);
	T(test_await_leaves_other_slots);
	T(test_await_only_what_precedes);
	T(test_lost_time_counts_each_slot);
	T(test_lost_time_ends_at_drain);
	T(test_await_budget);
	T(test_await_within_a_burst);
	T(test_returns_overflow);
	T(test_rounds);
	T(test_policy_table);
	T(test_policy_weight);
	T(test_policy_weight_iosize);
	add_table(&h, test_policy_range, range_rows);
	return run_harness(&h, "policy");
}
