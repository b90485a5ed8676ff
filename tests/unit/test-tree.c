// SPDX-License-Identifier: GPL-2.0-only
/*
 * Trees, limits, minimums and changes of policy by hand: small cases whose
 * answer is worked out in the comment next to them. The core's own state is
 * checked at each step.
 */
#include "harness.h"

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "rig.h"

#define A		0
#define B		1
#define C		2
#define D		3
#define NOBODY		U32_MAX
#define READ		IOBAND_READ
#define WRITE		IOBAND_WRITE
#define KIB		1024ULL
#define MIB		(1024 * KIB)

static void put(u32 group, u32 parent)
{
	ioband_share_set_parent(&rig.g[group], parent == NOBODY ? NULL :
				&rig.g[parent], rig.now);
	rig_check();
}

/*
 * A letter for each group: the one that it is below, "." at the top. Weights
 * are 100 until set.
 */
static void tree_init(u32 depth, const char *parents)
{
	u32 weights[MAX_GROUPS], i, n = strlen(parents);

	for (i = 0; i < n; i++)
		weights[i] = 100;
	rig_init_at(0, depth, n, weights);
	rig.check = true;
	for (i = 0; i < n; i++)
		if (parents[i] != '.')
			put(i, parents[i] - 'A');
}

static void limit_for(u32 group, enum ioband_limit limit, u64 rate, u64 burst_ns)
{
	struct ioband_share *g = &rig.g[group];
	u64 rates[IOBAND_MAX_BW];
	u32 i;

	if (limit == IOBAND_MAX_BW) {
		const struct ioband_claim claim = {
			.weight		= g->weight,
			.min_bps	= g->min_bps,
			.max_bps	= rate,
		};

		ioband_share_set_claim(g, &claim, rig.now);
	}
	for (i = 0; i < IOBAND_MAX_BW; i++)
		rates[i] = i == limit ? rate : g->bucket[i].rate;
	ioband_share_set_limits(g, rates, burst_ns, rig.now);
	rig_check();
}

static void limit(u32 group, enum ioband_limit limit, u64 rate)
{
	limit_for(group, limit, rate, rig.g[group].burst_ns);
}

static void range(u32 group, u64 min_bps, u64 max_bps)
{
	const struct ioband_claim claim = {
		.weight		= rig.g[group].weight,
		.min_bps	= min_bps,
		.max_bps	= max_bps,
	};

	ioband_share_set_claim(&rig.g[group], &claim, rig.now);
	rig_check();
}

static void use_policy(const char *name)
{
	ioband_sched_set_policy(&rig.s, ioband_policy_find(name));
	rig_check();
}

/* How long from now until peek() has something; checks that it says so. */
static u64 wait_for(struct ioband_req *r)
{
	struct ioband_req *got;
	u64 begin = rig.now;
	u32 tries = 0;

	while (!(got = peek(0))) {
		assert_true(rig.until > rig.now);
		assert_true(tries++ < 100);
		/* Neither a nanosecond before that. */
		rig.now = rig.until - 1;
		assert_null(peek(0));
		rig.now = rig.until ? max(rig.until, rig.now + 1) : rig.now;
	}
	assert_ptr_equal(got, r);
	return rig.now - begin;
}

/* --- shares in trees ---
 *
 * Those in @held hold plenty, in this order of arrival; an I/O goes at a time.
 * Of equal tags the first that came to it goes first, of a parent's own and a
 * child's the parent's own.
 */
static const struct tree_row {
	const char *name;
	const char *parents;
	u32 weights[MAX_GROUPS];
	const char *held;
	const char *expect;
} tree_rows[] = {
	/* As 200:100 at the top. */
	{ "tree: two children", ".AA", { 100, 200, 100 }, "BC",
	  "BCBCBBCBBCBBC" },
	/* A and D take turns, A's turns are those of the row before. */
	{ "tree: children and a sibling of the parent", ".AA.",
	  { 100, 200, 100, 100 }, "BCD", "BDCDBDCDBDBDCD" },
	{ "tree: an idle child's share is its sibling's", ".AA.",
	  { 100, 200, 100, 100 }, "BD", "BDBDBDBD" },
	{ "tree: many children are as good as one", ".AAA.",
	  { 100, 100, 100, 100, 100 }, "BCDE", "BECEDEBECEDE" },
	/* A's weight counts at the top, its children's only below it. */
	{ "tree: the parent's weight", ".A.", { 200, 1, 100 }, "BC",
	  "BCBCBBCBBC" },
	{ "tree: own I/O against a child's", ".A", { 100, 100 }, "AB",
	  "ABABABAB" },
	{ "tree: own I/O, though the child came first", ".A", { 100, 100 },
	  "BA", "ABABABAB" },
	/* Units of 1/200: own 0, B 0, own 1, 2 (tie), B 2, own 3, 4 (tie). */
	{ "tree: own I/O goes by the parent's weight", ".A", { 200, 100 },
	  "AB", "ABAABAABAAB" },
	/* Own 0, B 0, B 1, own 2 (tie), B 2, B 3, ... */
	{ "tree: own I/O against a heavy child", ".A", { 100, 200 }, "AB",
	  "ABBABBABB" },
	{ "tree: own I/O is of one in the parent's level", ".A.",
	  { 100, 100, 100 }, "ABC", "ACBCACBC" },
	/* B is below A, C and D below B, E below A, F at the top. */
	{ "tree: three levels", ".ABBA.", { 100, 100, 100, 100, 100, 100 },
	  "CDEF", "CFEFDFEFCFEFDFEF" },
	{ "tree: three levels, an idle grandchild", ".ABBA.",
	  { 100, 100, 100, 100, 100, 100 }, "CEF", "CFEFCFEF" },
	{ "tree: three levels, an idle child", ".ABBA.",
	  { 100, 100, 100, 100, 100, 100 }, "EF", "EFEFEF" },
	{ "tree: three levels, a sole grandchild", ".ABBA.",
	  { 100, 100, 100, 100, 100, 100 }, "DF", "DFDFDF" },
	{ "tree: three levels, own I/O in each", ".AB.",
	  { 100, 100, 100, 100 }, "ABCD", "ADBDADCDADBDADCD" },
	{ "tree: lightest below heaviest", ".A.", { 32767, 1, 1 }, "BC",
	  "BCBBBBBBBBBBBBBBBB" },
};

static void test_tree(void **state)
{
	const struct tree_row *row = *state;
	u32 i, n = strlen(row->expect);
	const char *p;

	tree_init(1, row->parents);
	for (i = 0; i < rig.nr_groups; i++)
		set_weight(i, row->weights[i]);
	for (p = row->held; *p; p++)
		hold_many(*p - 'A', n, 1);
	assert_string_equal(send_letters(n), row->expect);
}

/* A thousand I/Os of each level are in proportion, give or take one. */
static void test_tree_is_exact(void **state)
{
	u32 count[MAX_GROUPS] = { }, i;

	(void)state;
	/* A 3 : D 1, below A: B 2 : C 1. */
	tree_init(1, ".AA.");
	set_weight(A, 300);
	set_weight(B, 200);
	hold_many(B, 2000, 1);
	hold_many(C, 2000, 1);
	hold_many(D, 2000, 1);
	for (i = 0; i < 2400; i++)
		count[owner(send())]++;
	assert_in_range(count[B], 1199, 1201);
	assert_in_range(count[C], 599, 601);
	assert_in_range(count[D], 599, 601);
}

/*
 * Credit is of a child's own level: depth 4 and weights 1 + 1, so a round is 2.
 * B took the clock of its level to 99. At the top A is alone: 4 / 1.
 */
static void test_credit_below(void **state)
{
	(void)state;
	tree_init(4, ".AA.");
	set_weight(A, 1);
	set_weight(B, 1);
	set_weight(C, 1);
	hold_many(B, 110, 1);
	send_letters(100);
	assert_int_equal(rig.g[A].below.tag, TAG(99, 1));
	hold_many(C, 100, 1);
	assert_int_equal(lead(C), -(s64)TAG(2, 1));
	/* C at 97, 98, 99, and at 100 B was first. */
	assert_string_equal(send_letters(7), "CCCBCBC");
}

/* A parent that comes back has the credit of its level, its children theirs. */
static void test_parent_comes_back(void **state)
{
	(void)state;
	tree_init(1, ".A.");
	hold(B, 1);
	send();
	hold_many(C, 1000, 1);
	send_letters(500);
	hold_many(B, 10, 1);
	/* A round is 1 / 200: half an I/O. A is at 498.5, C's next at 500. */
	assert_int_equal(lead(A), -(s64)TAG(1, 200));
	assert_string_equal(send_letters(6), "BBCBCB");
}

/* --- clocks of levels in long runs --- */

/*
 * A sends on its own while its child B pauses. With weight 1 and the largest
 * I/O the level's clock moves by 2^55 each time: by 2^63 after 256. Whenever B
 * returns it is behind, and next; and so is A after B alone was served.
 */
static void long_pause(u32 busy, u32 away)
{
	u32 n, k;

	for (n = 2; n < 700; n += 29) {
		tree_init(1, ".A");
		rig.check = false;
		set_weight(A, 1);
		set_weight(B, 1);
		hold(away, 1);
		send();
		for (k = 0; k < n; k++) {
			hold(busy, IOBAND_MAX_TOKENS);
			assert_int_equal(owner(send()), busy);
		}
		rig.check = true;
		hold_many(busy, 2, 1);
		hold(away, 1);
		if (owner(peek(0)) != away)
			failf("after %u I/Os %c isn't next", n, 'A' + away);
	}
}

static void test_long_pause_of_a_child(void **state)
{
	(void)state;
	long_pause(A, B);
}

static void test_long_pause_of_own(void **state)
{
	(void)state;
	long_pause(B, A);
}

/* The same between children of one group. */
static void test_long_pause_of_a_sibling(void **state)
{
	u32 n, k;

	(void)state;
	for (n = 2; n < 700; n += 29) {
		tree_init(1, ".AA");
		rig.check = false;
		set_weight(B, 1);
		set_weight(C, 1);
		hold(C, 1);
		send();
		for (k = 0; k < n; k++) {
			hold(B, IOBAND_MAX_TOKENS);
			send();
		}
		rig.check = true;
		hold_many(B, 2, 1);
		hold(C, 1);
		assert_int_equal(owner(peek(0)), C);
	}
}

/* --- changes of weight --- */

/* A lead keeps its tokens in each level, and of own I/O, too. */
static const struct own_row {
	const char *name;
	u32 from, to;
	u32 child;
	const char *expect;
} own_rows[] = {
	/*
	 * One I/O of A's own moved it to 1/1, which is 1/128 at the new weight:
	 * B at 0, then a tie at 1/128.
	 */
	{ "own lead: heavier", 1, 128, 128, "BABAB" },
	/* To 1/128, and that is 1/1 at the new weight: B at 0 and 1/2. */
	{ "own lead: lighter", 128, 1, 2, "BBABB" },
	{ "own lead: the same", 128, 128, 128, "BABAB" },
};

static void test_own_lead(void **state)
{
	const struct own_row *row = *state;
	u32 n = strlen(row->expect);

	tree_init(1, ".A");
	set_weight(A, row->from);
	set_weight(B, row->child);
	hold_many(A, n, 1);
	assert_int_equal(owner(send()), A);
	hold_many(B, n, 1);
	set_weight(A, row->to);
	assert_string_equal(send_letters(n), row->expect);
}

/*
 * Two of B's bring it to 2/100, the clock to 1/100. The lead of one I/O is 1/2
 * at 200; C is at the clock.
 */
static void test_child_lead(void **state)
{
	(void)state;
	tree_init(1, ".AA");
	hold_many(B, 20, 1);
	send_letters(2);
	assert_int_equal(lead(B), TAG(1, 100));
	set_weight(B, 200);
	assert_int_equal(lead(B), TAG(1, 200));
	assert_int_equal(ioband_level_weights(&rig.g[B]), 300);
	assert_int_equal(ioband_level_weights(&rig.g[A]), 100);
	set_weight(B, 100);
	assert_in_range(lead(B), TAG(1, 100) - 1, TAG(1, 100));
}

/* --- charges --- */

/*
 * What went straight is charged in each level, up to half of its burst: depth
 * 8, so 4 tokens of all weights of the level.
 */
static void test_charge_in_a_tree(void **state)
{
	(void)state;
	tree_init(8, ".AA.");
	ioband_charge(&rig.g[B], 1);
	rig_check();
	assert_int_equal(lead(B), TAG(1, 100));
	assert_int_equal(lead(A), TAG(1, 100));
	ioband_charge(&rig.g[B], 1000);
	rig_check();
	assert_int_equal(lead(B), TAG(4, 200));
	assert_int_equal(lead(A), TAG(4, 200));
	assert_int_equal(lead(C), 0);
	assert_int_equal(lead(D), 0);
}

/* How many I/Os of others go before one of @group, which is in debt. */
static u32 count_before(u32 group)
{
	u32 n = 0;

	hold(group, 1);
	while (n < 5000) {
		rig.now += MSEC;
		if (owner(send()) == group)
			break;
		n++;
	}
	return n;
}

/*
 * 1000 I/Os a second, all of B. A's weight is 1: the clock at the top moves by
 * 1000 in a second, but that of B's level by 10. "The debt is at most what the
 * groups together move the clock in a second": C waits for 1000 I/Os of B.
 */
static void test_debt_of_a_child(void **state)
{
	u32 i;

	(void)state;
	tree_init(4, ".AA");
	rig.check = false;
	set_weight(A, 1);
	hold_many(B, 7000, 1);
	for (i = 0; i < 1500; i++) {
		rig.now += MSEC;
		send();
	}
	charge_debt(C, IOBAND_MAX_TOKENS);
	assert_in_range(count_before(C), 900, 1100);
}

/* A group pays for its own debt, not its children: here 50 I/Os of A's own. */
static void test_debt_of_own(void **state)
{
	u32 i;

	(void)state;
	tree_init(4, ".A");
	rig.check = false;
	hold_many(B, 5000, 1);
	for (i = 0; i < 1500; i++) {
		rig.now += MSEC;
		send();
	}
	charge_debt(A, 50);
	assert_in_range(count_before(A), 49, 52);
}

/* A limit's debt is a second at most, in each ancestor; none in the siblings. */
static void test_debt_of_limits(void **state)
{
	struct ioband_req *r;

	(void)state;
	tree_init(4, ".AA");
	limit(A, IOBAND_RIOPS, 100);
	limit(B, IOBAND_RIOPS, 50);
	rig.now += SEC;
	charge_debt(B, 1000000);
	/* 100/s for 100 ms is a bucket of 10: at -100, so 1.01 s for one. */
	r = hold(C, 1);
	assert_int_equal(wait_for(r), 1010 * MSEC);
	take(r);
	/* B's own: at -50, so 20 ms after a second; A has to have one again. */
	r = hold(B, 1);
	assert_int_equal(wait_for(r), 10 * MSEC);
}

/* --- awaiting in trees ---
 *
 * An I/O takes 1 ms, who is awaited thinks for 20 us. He who is awaited sent
 * nothing yet, so he is behind whoever did.
 */
static const struct await_row {
	const char *name;
	const char *parents;
	u32 reader;		/* just had his I/O completed */
	const char *held;	/* who hold I/O, in this order */
	u32 ahead;		/* the one of them, or an ancestor, that is ahead */
	u32 token_base;
	bool expect;
} await_rows[] = {
	{ "await: a sibling", "..", A, "B", B, 0, true },
	{ "await: a child", ".AA", B, "C", C, 0, true },
	{ "await: not who is level", ".AA", B, "C", NOBODY, 0, false },
	{ "await: against another's child", "..B", A, "C", B, 0, true },
	{ "await: another's child against own", ".A.", B, "C", C, 0, true },
	/* D holds, so A isn't idle: its turn is D's. */
	{ "await: not in place of a sibling", ".A.A", B, "DC", C, 0, false },
	{ "await: among those that have the turn", ".A.A", B, "DC", D, 0, true },
	{ "await: a grandchild", ".AB.", C, "D", D, 0, true },
	{ "await: a cousin", ".ABA", C, "D", D, 0, true },
	{ "await: not where the turn isn't", "..A", C, "AB", B, 0, false },
	/* Who has the turn goes on for long, so nothing is gained. */
	{ "await: not within a burst", "..", A, "B", B, 100000, false },
	/* But A's burst is A's: its children share it as ever. */
	{ "await: a child within a burst", ".AA", B, "C", C, 100000, true },
};

static void test_await(void **state)
{
	const struct await_row *row = *state;
	struct ioband_req *r;
	const char *p;

	tree_init(1, row->parents);
	rig.s.token_base = row->token_base;
	rig.s.service_ns = MSEC;
	if (row->ahead != NOBODY)
		rig.g[row->ahead].tag += TAG(5, 100);
	rig.g[row->reader].think_ns = 20 * USEC;
	rig.g[row->reader].tokens_last = 1;
	if (row->token_base) {
		hold(row->held[0] - 'A', 1);
		send();
	}
	for (p = row->held; *p; p++)
		hold_many(*p - 'A', 3, 1);
	r = new_req(row->reader, READ, BE, 1, true);
	r->sent_ns = rig.now - MSEC;
	done(r);
	assert_int_equal(!peek(0), row->expect);
	if (!row->expect)
		return;
	assert_int_equal(rig.until, rig.now + 90 * USEC);
	rig.now += 20 * USEC;
	r = hold_as(row->reader, READ, BE, 1, true);
	assert_ptr_equal(peek(0), r);
}

/* A parent's own reader, against the I/O of a child that is ahead. */
static void test_await_own(void **state)
{
	struct ioband_req *r;

	(void)state;
	tree_init(1, ".A");
	rig.s.service_ns = MSEC;
	rig.g[A].think_ns = 20 * USEC;
	rig.g[A].tokens_last = 1;
	rig.g[B].tag += TAG(5, 100);
	hold_many(B, 3, 1);
	r = new_req(A, READ, BE, 1, true);
	r->sent_ns = rig.now - MSEC;
	done(r);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + 90 * USEC);
}

/* And a child's, against the parent's own that is ahead. */
static void test_await_against_own(void **state)
{
	struct ioband_req *r;

	(void)state;
	tree_init(1, ".A");
	rig.s.service_ns = MSEC;
	rig.g[B].think_ns = 20 * USEC;
	rig.g[B].tokens_last = 1;
	hold_many(A, 20, 1);
	send_letters(10);
	r = new_req(B, READ, BE, 1, true);
	r->sent_ns = rig.now - MSEC;
	done(r);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + 90 * USEC);
}

/* --- limits: which I/O, and whose ---
 *
 * A is above B, B above C, which sends. The limit is set on each of the three
 * in turn. A new bucket is empty, and holds one largest I/O (1 MiB, one
 * request) or 100 ms.
 */
static const struct limit_row {
	const char *name;
	enum ioband_limit limit;
	u64 rate;
	u64 burst_ns;
	u8 dir;
	u32 bytes, ios;
	u64 wait;
} limit_rows[] = {
	{ "limit: rbps", IOBAND_RBPS, MIB, 0, READ, 256 * KIB, 1, 250 * MSEC },
	{ "limit: rbps, largest I/O", IOBAND_RBPS, MIB, 0, READ, MIB, 1, SEC },
	{ "limit: rbps, larger than the bucket", IOBAND_RBPS, MIB, 0, READ,
	  64 * MIB, 64, SEC },
	{ "limit: rbps isn't for writes", IOBAND_RBPS, 1, 0, WRITE, MIB, 1, 0 },
	{ "limit: rbps isn't for requests", IOBAND_RBPS, MIB, 0, READ,
	  256 * KIB, 1000, 250 * MSEC },
	{ "limit: wbps", IOBAND_WBPS, MIB, 0, WRITE, 256 * KIB, 1,
	  250 * MSEC },
	{ "limit: wbps isn't for reads", IOBAND_WBPS, 1, 0, READ, MIB, 1, 0 },
	{ "limit: wbps, a discard has no data", IOBAND_WBPS, 1, 0, WRITE, 0, 1,
	  0 },
	{ "limit: riops", IOBAND_RIOPS, 10, 0, READ, 4 * KIB, 1, 100 * MSEC },
	/* Three requests pass when the bucket of one is full, ... */
	{ "limit: riops, more than the bucket", IOBAND_RIOPS, 10, 0, READ,
	  4 * KIB, 3, 100 * MSEC },
	/* ... and when three are there in one of ten. */
	{ "limit: riops, a longer burst", IOBAND_RIOPS, 10, SEC, READ,
	  4 * KIB, 3, 300 * MSEC },
	{ "limit: riops isn't for bytes", IOBAND_RIOPS, 10, 0, READ, 64 * MIB,
	  1, 100 * MSEC },
	{ "limit: riops isn't for writes", IOBAND_RIOPS, 1, 0, WRITE, 4 * KIB,
	  1, 0 },
	{ "limit: wiops", IOBAND_WIOPS, 10, 0, WRITE, 4 * KIB, 1, 100 * MSEC },
	{ "limit: wiops, a discard is one", IOBAND_WIOPS, 10, 0, WRITE, 0, 1,
	  100 * MSEC },
	{ "limit: wiops isn't for reads", IOBAND_WIOPS, 1, 0, READ, 4 * KIB, 1,
	  0 },
	/* Of a maximum the bucket is 100 ms whatever the largest I/O. */
	{ "limit: max, a read", IOBAND_MAX_BW, MIB, 0, READ, 64 * KIB, 1,
	  62500000 },
	{ "limit: max, a write", IOBAND_MAX_BW, MIB, 0, WRITE, 64 * KIB, 1,
	  62500000 },
	{ "limit: max, a large I/O", IOBAND_MAX_BW, MIB, 0, WRITE, MIB, 1,
	  100 * MSEC },
	{ "limit: lowest", IOBAND_RBPS, 1, 0, READ, 4 * KIB, 1, 4096 * SEC },
	{ "limit: highest", IOBAND_RBPS, S64_MAX, 0, READ, MIB, 1, 0 },
};

static void test_limit(void **state)
{
	const struct limit_row *row = *state;
	enum ioband_limit why;
	struct ioband_req *r;
	u32 who;

	for (who = A; who <= C; who++) {
		tree_init(4, ".AB");
		limit_for(who, row->limit, row->rate, row->burst_ns ?:
			  IOBAND_BURST_NS);
		assert_true(ioband_share_limited(&rig.g[C]));
		assert_int_equal(ioband_share_limited(&rig.g[A]), who == A);
		r = hold_req(new_io(C, row->dir, BE, row->bytes >> 9, row->ios,
				    false));
		assert_int_equal(!peek(0), !!row->wait);
		if (row->wait) {
			assert_int_equal(rig.until, rig.now + row->wait);
			assert_ptr_equal(ioband_pausing(&rig.g[C], &why),
					 &rig.g[who]);
			assert_int_equal(why, row->limit);
			assert_false(ioband_wants_room(&rig.s));
			/* No time to ask again while there is no room. */
			assert_null(peek(4));
			assert_int_equal(rig.until, 0);
		}
		assert_int_equal(wait_for(r), row->wait);
		assert_null(ioband_pausing(&rig.g[C], &why));
		assert_true(ioband_wants_room(&rig.s));
		take(r);
		assert_false(ioband_wants_room(&rig.s));
		/* And once more: all of it was charged, and once. */
		if (!row->wait || row->ios > 1 || row->bytes > MIB ||
		    (row->limit == IOBAND_MAX_BW && row->bytes == MIB))
			continue;
		r = hold_req(new_io(C, row->dir, BE, row->bytes >> 9, row->ios,
				    false));
		assert_int_equal(wait_for(r), row->wait);
	}
}

/* Two limits: an I/O has to wait for the longer, and says for which. */
static const struct two_row {
	const char *name;
	enum ioband_limit limit[2];
	u64 rate[2];
	u32 who[2];
	u64 wait;
	u32 blamed;	/* group and limit, of the two */
} two_rows[] = {
	{ "two limits: bytes are tighter", { IOBAND_RBPS, IOBAND_RIOPS },
	  { 64 * KIB, 100 }, { B, B }, SEC, 0 },
	{ "two limits: requests are tighter", { IOBAND_RBPS, IOBAND_RIOPS },
	  { 64 * MIB, 5 }, { B, B }, SEC / 5, 1 },
	{ "two limits: the parent's is tighter", { IOBAND_RBPS, IOBAND_RBPS },
	  { 64 * KIB, 128 * KIB }, { A, B }, SEC, 0 },
	{ "two limits: the child's is tighter", { IOBAND_RBPS, IOBAND_RBPS },
	  { 128 * KIB, 64 * KIB }, { A, B }, SEC, 1 },
	{ "two limits: the parent's requests", { IOBAND_RIOPS, IOBAND_RBPS },
	  { 1, 128 * KIB }, { A, B }, SEC, 0 },
	{ "two limits: the other direction's", { IOBAND_WBPS, IOBAND_RBPS },
	  { 1, 64 * KIB }, { A, B }, SEC, 1 },
	{ "two limits: a maximum above", { IOBAND_MAX_BW, IOBAND_RBPS },
	  { 64 * KIB, 64 * MIB }, { A, B }, SEC / 10, 0 },
};

static void test_two_limits(void **state)
{
	const struct two_row *row = *state;
	enum ioband_limit why;
	struct ioband_req *r;
	u64 begin;

	tree_init(4, ".A");
	limit(row->who[0], row->limit[0], row->rate[0]);
	limit(row->who[1], row->limit[1], row->rate[1]);
	r = hold_data(B, READ, 64 * KIB);
	begin = rig.now;
	assert_null(peek(0));
	/* All of a group at once; the child's own first, then the parent's. */
	if (row->who[0] == row->who[1])
		assert_int_equal(rig.until, begin + row->wait);
	while (rig.until != begin + row->wait) {
		assert_true(rig.until > rig.now);
		rig.now = rig.until;
		assert_null(peek(0));
	}
	assert_ptr_equal(ioband_pausing(&rig.g[B], &why),
			 &rig.g[row->who[row->blamed]]);
	assert_int_equal(why, row->limit[row->blamed]);
	rig.now = rig.until;
	assert_ptr_equal(peek(0), r);
}

/* What passes in some time of I/O that is held again when it was sent. */
static void run_limited(u64 ns, u64 *bytes)
{
	u64 end = rig.now + ns;
	struct ioband_req *r;
	u32 n = 0;

	for (; rig.now < end; rig.now = rig.until) {
		while ((r = peek(0))) {
			bytes[owner(r)] += r->sectors << 9;
			take(r);
			hold_req(r);
			/* Nothing here is meant to send more. */
			assert_true(n++ < 100000);
		}
		assert_true(rig.until > rig.now);
	}
}

static const struct flow_row {
	const char *name;
	const char *parents;
	u32 weights[MAX_GROUPS];
	u64 rbps[MAX_GROUPS];
	u64 riops[MAX_GROUPS];
	u32 bytes[MAX_GROUPS];	/* size of I/O, 0 for none */
	u64 expect[MAX_GROUPS];	/* bytes a second */
} flow_rows[] = {
	{ "flow: a limit", ".", { 100 }, { MIB }, { }, { 4096 }, { MIB } },
	{ "flow: bytes before requests", ".", { 100 }, { 40960 }, { 100 },
	  { 4096 }, { 40960 } },
	{ "flow: requests before bytes", ".", { 100 }, { MIB }, { 10 },
	  { 4096 }, { 40960 } },
	{ "flow: 2:1 below a limit", ".AA", { 100, 200, 100 }, { 6 * MIB },
	  { }, { 0, 4096, 4096 }, { 0, 4 * MIB, 2 * MIB } },
	/* B can't use all of its 4: C has the rest. */
	{ "flow: 2:1, one with a limit of its own", ".AA", { 100, 200, 100 },
	  { 6 * MIB, MIB }, { }, { 0, 4096, 4096 }, { 0, MIB, 5 * MIB } },
	{ "flow: own and a child's", ".A", { 100, 100 }, { 2 * MIB }, { },
	  { 4096, 4096 }, { MIB, MIB } },
	{ "flow: three levels", ".AB", { 100, 100, 100 },
	  { 3 * MIB, 2 * MIB, 4 * MIB }, { }, { 0, 0, 4096 },
	  { 0, 0, 2 * MIB } },
	/* A 4: B 3, of which C and D have half each; E the rest. */
	{ "flow: limits in three levels", ".ABBA", { 100, 300, 100, 100, 100 },
	  { 4 * MIB }, { }, { 0, 0, 4096, 4096, 4096 },
	  { 0, 0, 3 * MIB / 2, 3 * MIB / 2, MIB } },
	{ "flow: sizes differ, requests count", ".AA", { 100, 100, 100 }, { },
	  { 200 }, { 0, 4096, 65536 }, { 0, 409600, 6553600 } },
};

static void test_flow(void **state)
{
	const struct flow_row *row = *state;
	u64 bytes[MAX_GROUPS] = { };
	u32 i;

	tree_init(4, row->parents);
	rig.check = false;
	for (i = 0; i < rig.nr_groups; i++) {
		set_weight(i, row->weights[i]);
		limit(i, IOBAND_RBPS, row->rbps[i]);
		limit(i, IOBAND_RIOPS, row->riops[i]);
	}
	for (i = 0; i < rig.nr_groups; i++) {
		u32 n = row->bytes[i] ? 4 : 0;

		while (n--)
			hold_data(i, READ, row->bytes[i]);
	}
	run_limited(10 * SEC, bytes);
	for (i = 0; i < rig.nr_groups; i++) {
		u64 want = 10 * row->expect[i];

		/* One in a thousand, and one I/O. */
		assert_in_range(bytes[i], want - want / 1000 -
				min_t(u64, row->bytes[i], want),
				want + want / 1000 + row->bytes[i]);
	}
}

/* Reads don't wait for a limit of writes, in the group or above it. */
static void test_directions(void **state)
{
	struct ioband_req *w, *r;
	u32 who;

	(void)state;
	for (who = A; who <= C; who++) {
		tree_init(4, ".AB");
		limit(who, IOBAND_WBPS, MIB);
		w = hold_data(C, WRITE, MIB);
		assert_null(peek(0));
		r = hold_data(C, READ, MIB);
		assert_ptr_equal(send(), r);
		assert_null(peek(0));
		r = hold_data(B, READ, MIB);
		assert_ptr_equal(send(), r);
		assert_int_equal(wait_for(w), SEC);
	}
}

/* Nor does a sibling, a parent's own I/O, or anybody at the top. */
static void test_others_pass(void **state)
{
	struct ioband_req *r;

	(void)state;
	tree_init(4, ".A.A");
	limit(B, IOBAND_RIOPS, 1);
	hold_many(B, 3, 1);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + SEC);
	hold(A, 1);
	hold(C, 1);
	hold(D, 1);
	/* Own I/O goes before the child's; C is in A's level. */
	assert_string_equal(send_letters(4), "ACD-");
	/* A limit of the parent holds all that is below it. */
	limit(A, IOBAND_RIOPS, 1);
	hold(A, 1);
	hold(C, 1);
	hold(D, 1);
	assert_string_equal(send_letters(2), "C-");
	r = peek(0);
	assert_null(r);
	assert_false(ioband_wants_room(&rig.s));
}

/* Two wait, for 100 ms and 250 ms: ask again when the first may go. */
static void test_until(void **state)
{
	struct ioband_req *a, *b;

	(void)state;
	tree_init(4, "..");
	limit(A, IOBAND_RBPS, MIB);
	limit(B, IOBAND_RIOPS, 10);
	a = hold_data(A, READ, 256 * KIB);
	b = hold_data(B, READ, 4 * KIB);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + 100 * MSEC);
	rig.now += 99 * MSEC;
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + MSEC);
	rig.now += MSEC;
	assert_ptr_equal(send(), b);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + 150 * MSEC);
	rig.now += 150 * MSEC;
	assert_ptr_equal(send(), a);
	assert_null(peek(0));
	assert_int_equal(rig.until, 0);
}

/* --- a limit that is changed while I/O waits for it --- */

static const struct relief_row {
	const char *name;
	enum ioband_limit limit;
	u64 from, to;
	u64 wait;	/* from the change on */
} relief_rows[] = {
	{ "relief: removed", IOBAND_RBPS, 1, 0, 0 },
	{ "relief: raised", IOBAND_RBPS, 1, 64 * KIB, SEC },
	{ "relief: raised to the highest", IOBAND_RBPS, 1, S64_MAX, 0 },
	{ "relief: requests, removed", IOBAND_RIOPS, 1, 0, 0 },
	{ "relief: requests, raised", IOBAND_RIOPS, 1, 1000, MSEC },
	{ "relief: a maximum, removed", IOBAND_MAX_BW, 1024, 0, 0 },
	{ "relief: a maximum, raised", IOBAND_MAX_BW, 1024, 64 * KIB,
	  SEC / 10 },
	/* 64 KiB at 1/s are 18 hours, at 2/s 9. */
	{ "relief: twice as much", IOBAND_RBPS, 1, 2, 32768 * SEC },
	{ "relief: lowered", IOBAND_RBPS, 64 * KIB, 1, 65536 * SEC },
};

static void test_relief(void **state)
{
	const struct relief_row *row = *state;
	struct ioband_req *r;
	u32 who;

	for (who = A; who <= C; who++) {
		tree_init(4, ".AB");
		/* Long after boot; test-limit.c has the other case. */
		rig.now += 1ULL << 59;
		limit(who, row->limit, row->from);
		r = hold_data(C, READ, 64 * KIB);
		assert_null(peek(0));
		limit(who, row->limit, row->to);
		assert_int_equal(wait_for(r), row->wait);
		take(r);
	}
}

/* Other settings leave a pause as long as it is. */
static void test_no_relief(void **state)
{
	struct ioband_req *r;

	(void)state;
	tree_init(4, ".A");
	limit(A, IOBAND_RBPS, 64 * KIB);
	r = hold_data(B, READ, 64 * KIB);
	assert_null(peek(0));
	rig.now += SEC / 4;
	set_weight(A, 7);
	set_weight(B, 8);
	limit(A, IOBAND_RIOPS, 1000);
	limit(A, IOBAND_RBPS, 64 * KIB);
	assert_null(peek(0));
	ioband_sched_set_depth(&rig.s, 1);
	use_policy("weight-iosize");
	assert_null(peek(0));
	assert_int_equal(wait_for(r), 3 * SEC / 4);
}

/* --- draining what is paused --- */

static void test_drain_paused(void **state)
{
	struct ioband_req *r[6];
	u32 i;

	(void)state;
	tree_init(4, ".A.");
	limit(A, IOBAND_RBPS, 1);
	limit(A, IOBAND_WBPS, 1);
	limit(B, IOBAND_WIOPS, 1);
	for (i = 0; i < 6; i++)
		r[i] = hold_data(i / 3, i & 1, 64 * KIB);
	assert_null(peek(0));
	assert_true(rig.until);
	for (i = 0; i < 6; i++)
		assert_ptr_equal(drain(i / 3), r[i]);
	assert_null(drain(A));
	assert_null(drain(B));
	assert_null(peek(0));
	assert_int_equal(rig.until, 0);
	assert_int_equal(rig.s.held, 0);
	hold(C, 1);
	assert_string_equal(send_letters(2), "C-");
}

/* What is left of a paused group is still paused, then goes. */
static void test_drain_one_of_a_paused_tree(void **state)
{
	struct ioband_req *r;

	(void)state;
	tree_init(4, ".AA");
	limit(A, IOBAND_RIOPS, 1);
	hold(B, 1);
	assert_null(peek(0));
	r = hold(C, 1);
	drain(B);
	assert_int_equal(wait_for(r), SEC);
}

/* --- words for status --- */

/* All groups that it is said to be the turn of. */
static const char *next_letters(void)
{
	static char letters[MAX_GROUPS + 1];
	u32 i, n = 0;

	for (i = 0; i < rig.nr_groups; i++)
		if (ioband_is_next(&rig.g[i], rig.now))
			letters[n++] = 'A' + i;
	letters[n] = 0;
	return letters;
}

static void test_status(void **state)
{
	enum ioband_limit why;

	(void)state;
	tree_init(4, ".AA.");
	assert_false(ioband_wants_room(&rig.s));
	assert_string_equal(next_letters(), "");
	hold(B, 1);
	hold(D, 1);
	assert_true(ioband_wants_room(&rig.s));
	/* It is A's turn, and below A that of B. */
	assert_string_equal(next_letters(), "B");
	hold(B, 5);
	assert_string_equal(send_letters(1), "B");
	assert_string_equal(next_letters(), "D");
	assert_string_equal(send_letters(2), "DB");
	/* 6 tokens of each, less the tag of the last one, 1, at the clock. */
	assert_int_equal(ioband_lead(&rig.g[B]), 4);
	assert_int_equal(ioband_lead(&rig.g[A]), 4);
	assert_int_equal(ioband_lead(&rig.g[C]), 0);
	assert_int_equal(ioband_lead(&rig.g[D]), 0);

	/* Who waits, and for whose limit. */
	limit(A, IOBAND_WIOPS, 1);
	hold_as(B, WRITE, BE, 1, false);
	assert_null(peek(0));
	assert_ptr_equal(ioband_pausing(&rig.g[B], &why), &rig.g[A]);
	assert_int_equal(why, IOBAND_WIOPS);
	assert_null(ioband_pausing(&rig.g[C], &why));
	assert_null(ioband_pausing(&rig.g[D], &why));
	/* One that has reads to go isn't kept by a limit of writes. */
	hold(C, 1);
	assert_null(ioband_pausing(&rig.g[C], &why));
	assert_true(ioband_wants_room(&rig.s));
}

/* A parent's own I/O and its child's take turns, the parent's first. */
static void test_next_of_a_parent(void **state)
{
	(void)state;
	tree_init(1, ".A");
	hold_many(A, 2, 1);
	hold_many(B, 2, 1);
	assert_string_equal(next_letters(), "A");
	assert_string_equal(send_letters(1), "A");
	assert_string_equal(next_letters(), "B");
}

/* Whoever is behind a minimum goes before all tags: A, though its is the largest. */
static void test_next_by_minimum(void **state)
{
	(void)state;
	tree_init(1, "...");
	use_policy("range-bw");
	range(A, 40960, 0);
	rig.g[A].tag += TAG(1000000, 100);
	hold_data(A, READ, 4 * KIB);
	hold_data(A, READ, 4 * KIB);
	hold_data(B, READ, 4 * KIB);
	assert_string_equal(next_letters(), "A");
	assert_string_equal(send_letters(1), "A");
	assert_string_equal(next_letters(), "B");
	rig.now += 100 * MSEC;
	assert_string_equal(next_letters(), "A");
}

/* A goes on until it is half of the burst ahead: 2 of 4 tokens. */
static void test_next_by_burst(void **state)
{
	(void)state;
	tree_init(1, "..");
	rig.s.token_base = 4;
	hold_many(A, 4, 1);
	hold_many(B, 4, 1);
	assert_string_equal(send_letters(1), "A");
	assert_true(rig.g[B].tag < rig.g[A].tag);
	assert_string_equal(next_letters(), "A");
	assert_string_equal(send_letters(1), "A");
}

/* --- groups that move --- */

/* From below A to the top, with I/O held: there it is one of three. */
static void test_move_up(void **state)
{
	(void)state;
	tree_init(1, ".AA.");
	hold_many(B, 40, 1);
	hold_many(C, 40, 1);
	hold_many(D, 40, 1);
	/* A D A D: B and C have half of A's each. */
	assert_string_equal(send_letters(8), "BDCDBDCD");
	put(C, NOBODY);
	assert_int_equal(rig.s.root.weights, 300);
	assert_int_equal(rig.g[A].below.weights, 100);
	assert_int_equal(lead(C), 0);
	/*
	 * The clock is at 3, where D was last; C is there now. A and D are at 4
	 * and A came first.
	 */
	assert_string_equal(send_letters(8), "CBDCBDCB");
}

/* Below another: it shares with the children there. */
static void test_move_down(void **state)
{
	(void)state;
	tree_init(1, "..A");
	hold_many(B, 40, 1);
	hold_many(C, 40, 1);
	assert_string_equal(send_letters(4), "BCBC");
	put(B, A);
	assert_int_equal(rig.s.root.weights, 100);
	assert_int_equal(rig.g[A].below.weights, 200);
	/* The clock below A is at 1, where B is; C is at 2. */
	assert_string_equal(send_letters(6), "BCBCBC");
}

/* A lead at the old place is none at the new one, nor a lag. */
static void test_move_forgets(void **state)
{
	(void)state;
	tree_init(1, "..");
	hold(A, 1000);
	send();
	put(A, B);
	assert_int_equal(lead(A), 0);
	hold(A, 1000);
	send();
	put(A, NOBODY);
	assert_int_equal(lead(A), 0);
}

/* A group that sits out moves without weight, and starts level. */
static void test_move_inactive(void **state)
{
	(void)state;
	tree_init(1, "..");
	hold_many(B, 10, 1);
	send_letters(10);
	ioband_share_deactivate(&rig.g[A]);
	put(A, B);
	assert_int_equal(rig.g[B].below.weights, 0);
	put(A, NOBODY);
	assert_int_equal(rig.s.root.weights, 100);
	ioband_share_activate(&rig.g[A]);
	rig_check();
	assert_int_equal(rig.s.root.weights, 200);
	assert_int_equal(lead(A), 0);
}

/* Out of a limit, into one, and with one of its own. */
static void test_move_and_limits(void **state)
{
	struct ioband_req *r;

	(void)state;
	tree_init(4, ".A.");
	limit(A, IOBAND_RIOPS, 1);
	r = hold(B, 1);
	assert_null(peek(0));
	put(B, NOBODY);
	assert_ptr_equal(peek(0), r);
	/* Nobody else waits there: no timer either. */
	drain(B);
	assert_null(peek(0));
	assert_int_equal(rig.until, 0);

	r = hold(B, 1);
	put(B, A);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + SEC);
	put(B, C);
	assert_ptr_equal(send(), r);

	/* Its own limit goes along. */
	limit(B, IOBAND_RIOPS, 2);
	r = hold(B, 1);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + SEC / 2);
	rig.now += SEC / 4;
	put(B, NOBODY);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + SEC / 4);
	/* A's bucket fills in a second from the start. */
	put(B, A);
	rig.now += SEC / 4;
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + SEC / 2);
	rig.now = rig.until;
	assert_ptr_equal(send(), r);
}

/* All that is below goes along, held, paused or idle. */
static void test_move_a_subtree(void **state)
{
	struct ioband_req *c, *d, *e;

	(void)state;
	/* B below A; C, D, E below B; F at the top. */
	tree_init(4, ".ABBB.");
	limit(D, IOBAND_RIOPS, 1);
	limit(A, IOBAND_WIOPS, 1);
	c = hold(C, 1);
	d = hold(D, 1);
	e = hold_as(4, WRITE, BE, 1, false);
	assert_ptr_equal(peek(0), c);
	/* D is paused by its own, A's writes by A's. */
	take(c);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + SEC);
	c = hold(C, 1);
	put(1, 5);
	/* C and E pass below F: C came at 1/100 in its level, E at 0. */
	assert_ptr_equal(send(), e);
	assert_ptr_equal(send(), c);
	assert_null(peek(0));
	assert_int_equal(rig.until, rig.now + SEC);
	rig.now += SEC;
	assert_ptr_equal(send(), d);
	assert_null(peek(0));
	assert_int_equal(rig.until, 0);
}

/*
 * A parent goes away: its children move up, its own I/O is drained, and nothing
 * remembers it. The order of these doesn't matter.
 */
static void test_detach(void **state)
{
	u32 order;

	(void)state;
	for (order = 0; order < 6; order++) {
		tree_init(4, ".ABBA");
		limit(B, IOBAND_RIOPS, 1);
		hold_many(B, 2, 1);
		hold_many(C, 2, 1);
		hold_many(D, 2, 1);
		hold_many(4, 2, 1);
		if (order & 1)
			assert_int_equal(owner(send()), 4);
		if (order >= 4)
			ioband_share_deactivate(&rig.g[A]);
		if (order & 2) {
			drain(B);
			drain(B);
			ioband_share_deactivate(&rig.g[B]);
			rig_check();
		}
		put(C, A);
		put(D, A);
		drain(B);
		drain(B);
		assert_null(drain(B));
		ioband_share_deactivate(&rig.g[B]);
		rig_check();
		rig.check = false;
		memset(&rig.g[B], 0xff, sizeof(rig.g[B]));
		/* C and D aren't limited any more. */
		assert_int_equal(strlen(send_letters(6 - (order & 1))),
				 6 - (order & 1));
		assert_null(strchr(send_letters(1), 'B'));
		assert_int_equal(rig.s.held, 0);
	}
}

/* A parent that sits out and comes back while its children hold I/O. */
static void test_parent_sits_out(void **state)
{
	(void)state;
	tree_init(64, ".A.");
	hold_many(C, 10, 2);
	hold_many(B, 10, 1);
	assert_string_equal(send_letters(1), "C");
	/* A is ahead of C now. */
	ioband_charge(&rig.g[B], 10);
	rig_check();
	ioband_share_deactivate(&rig.g[A]);
	rig_check();
	assert_string_equal(send_letters(1), "C");
	/* And level with the clock. */
	ioband_share_activate(&rig.g[A]);
	rig_check();
	assert_int_equal(lead(A), 0);
	assert_int_equal(rig.s.root.weights, 200);
	assert_int_equal(owner(send()), B);
}

/* --- nothing is hoarded, nothing waits for ever --- */

/*
 * Writes of B are held by the limit of A or of its own while C reads 1000 times.
 * Without the limit B has a credit of one round and no more, whoever set it:
 * depth 4, so two I/Os of each, and C is the third to go at the latest.
 */
static void test_pause_is_no_credit(void **state)
{
	u32 who, i;

	(void)state;
	for (who = A; who <= B; who++) {
		tree_init(4, ".AA");
		rig.check = false;
		limit(who, IOBAND_WIOPS, 1);
		for (i = 0; i < 50; i++)
			hold_as(B, WRITE, BE, 1, false);
		hold_many(C, 1100, 1);
		assert_int_equal(strspn(send_letters(1000), "C"), 1000);
		rig.check = true;
		limit(who, IOBAND_WIOPS, 0);
		i = strspn(send_letters(20), "B");
		if (i > 4)
			failf("limit of %c: %u of B at once", 'A' + who, i);
	}
}

/* The same of a group in a paused one that moves. */
static void test_moved_pause_is_no_credit(void **state)
{
	u32 i;

	(void)state;
	tree_init(4, ".ABB.");
	rig.check = false;
	limit(A, IOBAND_WIOPS, 1);
	for (i = 0; i < 50; i++)
		hold_as(C, WRITE, BE, 1, false);
	hold_many(D, 1100, 1);
	assert_int_equal(strspn(send_letters(1000), "D"), 1000);
	rig.check = true;
	put(B, 4);
	assert_in_range(strspn(send_letters(20), "C"), 1, 4);
}

/*
 * Maximum 1 MB/s, for reads and writes together, and both are always there.
 * They take turns by what they used: half of it each, whatever their size.
 */
static const struct both_row {
	const char *name;
	const char *parents;
	u32 reader, writer;
	u32 read_bytes, write_bytes;
} both_rows[] = {
	{ "maximum: reads and writes", ".", A, A, 4 * KIB, 4 * KIB },
	{ "maximum: large reads, small writes", ".", A, A, 128 * KIB,
	  4 * KIB },
	{ "maximum: small reads, large writes", ".", A, A, 4 * KIB, 128 * KIB },
	{ "maximum: of two children", ".AA", B, C, 64 * KIB, 4 * KIB },
	{ "maximum: of own and a child", ".A", A, B, 4 * KIB, 64 * KIB },
};

static void test_both_directions(void **state)
{
	const struct both_row *row = *state;
	u64 read = 0, write = 0, end;
	struct ioband_req *r;
	u32 n = 0;

	tree_init(4, row->parents);
	use_policy("range-bw");
	range(A, 0, 1000000);
	hold_data(row->reader, READ, row->read_bytes);
	hold_data(row->reader, READ, row->read_bytes);
	hold_data(row->writer, WRITE, row->write_bytes);
	hold_data(row->writer, WRITE, row->write_bytes);
	for (end = rig.now + 20 * SEC; rig.now < end; rig.now = rig.until) {
		while ((r = peek(0))) {
			if (r->dir == READ)
				read += r->sectors << 9;
			else
				write += r->sectors << 9;
			take(r);
			hold_req(r);
			assert_true(n++ < 100000);
		}
		assert_true(rig.until > rig.now);
	}
	/* 20 MB in all, and an I/O of each more or less. */
	if (read < 9000000 || write < 9000000)
		failf("%llu bytes read, %llu written", read, write);
	assert_in_range(read + write, 19000000, 21200000);
}

/*
 * Reads are limited to one in a second, and many are held. A write of the
 * lowest priority is passed by those of the highest for a second, and isn't kept
 * back by older reads.
 */
static void test_old_write_beside_limited_reads(void **state)
{
	struct ioband_req *old, *r;
	u64 begin;
	u32 i;

	(void)state;
	tree_init(4, ".");
	limit(A, IOBAND_RIOPS, 1);
	for (i = 0; i < 50; i++)
		hold(A, 1);
	rig.now += 10 * MSEC;
	old = hold_as(A, WRITE, IDLE, 1, false);
	begin = rig.now;
	for (i = 0; i < 1000; i++) {
		hold_as(A, WRITE, 0, 1, false);
		rig.now += 10 * MSEC;
		while ((r = peek(0)) && r->dir == READ)
			take(r);
		assert_non_null(r);
		take(r);
		if (r == old)
			break;
	}
	assert_in_range(rig.now - begin, SEC, 3 * SEC);
}

/* --- minimums --- */

/* A's tag is far ahead, but it is behind its minimum, and goes first. */
static void test_minimum_goes_first(void **state)
{
	(void)state;
	tree_init(1, "..");
	use_policy("range-bw");
	range(A, 40960, 0);
	rig.g[A].tag += TAG(1000000, 100);
	hold_data(A, READ, 4 * KIB);
	hold_data(A, READ, 4 * KIB);
	hold_data(A, READ, 4 * KIB);
	hold_data(B, READ, 4 * KIB);
	hold_data(B, READ, 4 * KIB);
	/* One each 100 ms. */
	assert_string_equal(send_letters(2), "AB");
	rig.now += 99 * MSEC;
	hold_data(B, READ, 4 * KIB);
	assert_string_equal(send_letters(1), "B");
	rig.now += MSEC;
	assert_string_equal(send_letters(1), "A");
	/* All that it is sent counts: it is due again in 100 ms. */
	rig.now += 99 * MSEC;
	hold_data(B, READ, 4 * KIB);
	assert_string_equal(send_letters(2), "BB");
	assert_string_equal(send_letters(1), "A");
	assert_string_equal(send_letters(1), "-");
}

/* Who is due for longest goes first. */
static void test_minimums_in_turn(void **state)
{
	(void)state;
	tree_init(1, "...");
	use_policy("range-bw");
	range(A, 4096, 0);
	range(B, 8192, 0);
	hold_data(A, READ, 4 * KIB);
	hold_data(A, READ, 4 * KIB);
	hold_data(A, READ, 4 * KIB);
	hold_data(B, READ, 4 * KIB);
	hold_data(B, READ, 4 * KIB);
	hold_data(B, READ, 4 * KIB);
	hold_data(B, READ, 4 * KIB);
	hold_data(C, READ, 4 * KIB);
	/* Both at once, then A is due at 1 s, B at 1/2 s and 1 s. */
	assert_string_equal(send_letters(2), "AB");
	rig.now += 1100 * MSEC;
	/* B 1/2 s; A and B 1 s, A was there first. */
	assert_string_equal(send_letters(3), "BAB");
}

/*
 * Nobody catches up on more than a second: A got nothing for a minute and is
 * due for 10 I/Os then, and for those of the minute that follows.
 */
static void test_minimum_catches_up(void **state)
{
	struct ioband_req *r;
	u32 n = 0;

	(void)state;
	tree_init(1, "..");
	use_policy("range-bw");
	range(A, 40960, 0);
	rig.g[A].tag += TAG(1000000, 100);
	hold_many(A, 1000, 1);
	hold_many(B, 1000, 1);
	rig.now += 60 * SEC;
	while (owner(r = peek(0)) == A) {
		take(r);
		n++;
	}
	assert_in_range(n, 10, 12);
}

/* Who was idle has no claim to what it didn't use. */
static void test_minimum_is_no_credit(void **state)
{
	(void)state;
	tree_init(1, "..");
	use_policy("range-bw");
	range(A, 40960, 0);
	hold_data(A, READ, 4 * KIB);
	send();
	rig.now += 3600 * SEC;
	rig.g[A].tag += TAG(1000000, 100);
	hold_many(A, 10, 1);
	hold_many(B, 10, 1);
	assert_string_equal(send_letters(3), "ABB");
}

/* A group's minimum is met by what its children send, and they by their own. */
static void test_minimum_of_a_parent(void **state)
{
	(void)state;
	tree_init(1, ".AA.");
	use_policy("range-bw");
	range(A, 40960, 0);
	range(C, 40960, 0);
	rig.g[A].tag += TAG(1000000, 100);
	rig.g[C].tag += TAG(1000000, 100);
	hold_many(B, 10, 1);
	hold_many(C, 10, 1);
	hold_many(D, 10, 1);
	/*
	 * A is due and B is next there; C is due still. A isn't: it has been
	 * sent two, and is due in 200 ms.
	 */
	assert_string_equal(send_letters(4), "BCDD");
	rig.now += 100 * MSEC;
	assert_string_equal(send_letters(2), "CD");
}

/* What a limit forbids, a minimum doesn't allow. */
static void test_minimum_and_limits(void **state)
{
	(void)state;
	tree_init(1, ".A.");
	use_policy("range-bw");
	range(B, MIB, 0);
	limit(A, IOBAND_RIOPS, 1);
	hold_many(B, 3, 1);
	hold_many(C, 3, 1);
	assert_string_equal(send_letters(4), "CCC-");
	assert_int_equal(rig.until, rig.now + SEC);
}

/* --- other policies under load --- */

/*
 * A I/O of 2048 sectors for each of B of 8. By requests they take turns, by
 * sectors A sends one, and B 256 until it has caught up.
 */
static void test_switch_policy(void **state)
{
	u32 n = 0;

	(void)state;
	tree_init(1, "..");
	set_weight(A, 128);
	set_weight(B, 128);
	for (n = 0; n < 300; n++) {
		hold_data(A, READ, MIB);
		hold_data(B, READ, 4 * KIB);
		hold_data(B, READ, 4 * KIB);
	}
	assert_string_equal(send_letters(4), "ABAB");
	use_policy("weight-iosize");
	assert_int_equal(lead(A), 0);
	assert_int_equal(lead(B), 0);
	assert_string_equal(send_letters(1), "A");
	for (n = 0; owner(send()) == B; n++)
		;
	assert_int_equal(n, 256);
	use_policy("weight");
	/* Neither owes the other anything from before. */
	assert_non_null(strstr("ABABAB", send_letters(5)));
}

/* In each level, and of own I/O. */
static void test_switch_policy_in_a_tree(void **state)
{
	(void)state;
	tree_init(1, ".A");
	use_policy("weight-iosize");
	hold_data(A, READ, MIB);
	send();
	hold_many(A, 5, 1);
	hold_many(B, 5, 1);
	use_policy("weight");
	assert_int_equal(lead(B), 0);
	assert_string_equal(send_letters(4), "ABAB");
}

/* Reads and writes take turns by tokens, which aren't those of before. */
static void test_switch_policy_forgets_turns(void **state)
{
	struct ioband_req *r;
	u32 i, reads = 0;

	(void)state;
	tree_init(1, ".");
	use_policy("weight-iosize");
	for (i = 0; i < 20; i++) {
		hold_data(A, READ, MIB);
		hold_data(A, WRITE, 4 * KIB);
	}
	r = send();
	assert_int_equal(r->dir, READ);
	use_policy("weight");
	for (i = 0; i < 10; i++)
		reads += send()->dir == READ;
	assert_in_range(reads, 4, 6);
}

/* A pause outlasts a change of policy, but for that by a maximum. */
static void test_switch_policy_while_paused(void **state)
{
	struct ioband_req *a, *b;

	(void)state;
	tree_init(4, "..");
	use_policy("range-bw");
	range(A, 1024, 1024);
	limit(B, IOBAND_RBPS, 64 * KIB);
	a = hold_data(A, READ, 64 * KIB);
	b = hold_data(B, READ, 64 * KIB);
	assert_null(peek(0));
	use_policy("weight");
	/* As the caller does. */
	set_weight(A, 100);
	set_weight(B, 100);
	assert_ptr_equal(send(), a);
	assert_null(peek(0));
	assert_int_equal(wait_for(b), SEC);
}

/* --- extremes: nothing overflows (UBSan, and the division that traps) --- */

static const u64 extreme_rates[] = { 0, 1, 1000, 1ULL << 40, S64_MAX };
static const u32 extreme_sectors[] = { 0, 1, IOBAND_MAX_TOKENS };

static void try_extremes(u64 rate, u64 bps, u32 sectors, u64 now)
{
	u32 i, n = 0;
	u64 tries = 0;

	tree_init(U32_MAX, ".ABA");
	rig.now = now;
	rig.s.carryover = U32_MAX;
	use_policy(sectors & 1 ? "weight" : "range-bw");
	for (i = 0; i < 4; i++) {
		set_weight(i, i & 1 ? IOBAND_WEIGHT_MAX : IOBAND_WEIGHT_MIN);
		range(i, i & 1 ? bps : 0, bps);
		limit_for(i, (i + sectors) % 4, rate, i ? 10 * SEC : MSEC);
	}
	for (i = 0; i < 24; i++) {
		rig.now += 1ULL << i;
		hold_req(new_io(i % 4, i / 4 & 1, i % 17, sectors, i * 1000 + 1,
				i & 1));
		if (i % 5 == 0)
			charge_debt(i % 4, IOBAND_MAX_TOKENS);
		if (i % 7 == 0)
			ioband_charge(&rig.g[i % 4], ~0ULL);
		if (i % 6 == 0)
			limit(i % 4, i % 4, extreme_rates[i % 5]);
		if (i % 8 == 0)
			set_weight(i % 4, i & 16 ? IOBAND_WEIGHT_MAX :
						   IOBAND_WEIGHT_MIN);
		if (send())
			n++;
	}
	while (rig.s.held) {
		if (send()) {
			n++;
			continue;
		}
		assert_true(rig.until > rig.now);
		assert_true(tries++ < 1000);
		/* 4 GiB at a byte a second take 136 years; no clock shows it. */
		if (rig.until < now + (1ULL << 61)) {
			rig.now = rig.until;
			continue;
		}
		for (i = 0; i < 4; i++) {
			range(i, 0, 0);
			limit_for(i, 0, 0, MSEC);
			limit_for(i, 1, 0, MSEC);
			limit_for(i, 2, 0, MSEC);
			limit_for(i, 3, 0, MSEC);
		}
	}
	assert_int_equal(n, 24);
}

static void test_extremes(void **state)
{
	static const u64 bps[] = { 0, 1024, (u64)U32_MAX * 1024 };
	static const u64 starts[] = { 1, SEC, 1ULL << 60 };
	u32 a, b, c, d;

	(void)state;
	for (a = 0; a < ARRAY_SIZE(extreme_rates); a++)
		for (b = 0; b < ARRAY_SIZE(bps); b++)
			for (c = 0; c < ARRAY_SIZE(extreme_sectors); c++)
				for (d = 0; d < ARRAY_SIZE(starts); d++)
					try_extremes(extreme_rates[a], bps[b],
						     extreme_sectors[c],
						     starts[d]);
}

int main(void)
{
	static struct harness h;

#define T(fn)	add_test(&h, #fn, fn, NULL)
	add_table(&h, test_tree, tree_rows);
	T(test_tree_is_exact);
	T(test_credit_below);
	T(test_parent_comes_back);
	T(test_long_pause_of_a_child);
	T(test_long_pause_of_own);
	T(test_long_pause_of_a_sibling);
	add_table(&h, test_own_lead, own_rows);
	T(test_child_lead);
	T(test_charge_in_a_tree);
	T(test_debt_of_a_child);
	T(test_debt_of_own);
	T(test_debt_of_limits);
	add_table(&h, test_await, await_rows);
	T(test_await_own);
	T(test_await_against_own);
	add_table(&h, test_limit, limit_rows);
	add_table(&h, test_two_limits, two_rows);
	add_table(&h, test_flow, flow_rows);
	T(test_directions);
	T(test_others_pass);
	T(test_until);
	add_table(&h, test_relief, relief_rows);
	T(test_no_relief);
	T(test_drain_paused);
	T(test_drain_one_of_a_paused_tree);
	T(test_status);
	T(test_next_of_a_parent);
	T(test_next_by_minimum);
	T(test_next_by_burst);
	T(test_move_up);
	T(test_move_down);
	T(test_move_forgets);
	T(test_move_inactive);
	T(test_move_and_limits);
	T(test_move_a_subtree);
	T(test_detach);
	T(test_parent_sits_out);
	T(test_pause_is_no_credit);
	T(test_moved_pause_is_no_credit);
	add_table(&h, test_both_directions, both_rows);
	T(test_old_write_beside_limited_reads);
	T(test_minimum_goes_first);
	T(test_minimums_in_turn);
	T(test_minimum_catches_up);
	T(test_minimum_is_no_credit);
	T(test_minimum_of_a_parent);
	T(test_minimum_and_limits);
	T(test_switch_policy);
	T(test_switch_policy_in_a_tree);
	T(test_switch_policy_forgets_turns);
	T(test_switch_policy_while_paused);
	T(test_extremes);
	return run_harness(&h, "tree");
}
