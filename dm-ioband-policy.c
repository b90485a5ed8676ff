// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-ioband: the scheduling core and the policies.
 *
 * The problem: groups share a disk. Each should get the disk in proportion
 * to its weight for as long as it has work, the disk should never wait while
 * there is work, and a group that has just one reader should get its share as
 * one that keeps a hundred I/Os queued does.
 *
 * 1. Tokens and tags. An I/O costs tokens; the policy says how many. A group
 *    of weight w that issues an I/O of t tokens moves its tag by t / w. The
 *    group with the least tag is the one that is furthest behind its share,
 *    so its I/O goes next. The tag that the I/O had when it was sent is the
 *    domain's clock. There are no epochs: tokens are granted continuously, at
 *    the rate at which the disk takes them. This is start-time fair queueing
 *    (P. Goyal, H. Vin, H. Cheng, SIGCOMM 1996) with more than one I/O in
 *    service (SFQ(D): W. Jin, J. Chase, J. Kaur, SIGMETRICS 2004).
 *
 *    Groups A (weight 200) and B (weight 100) with work queued, 1 token each,
 *    tags in units of 1/200:
 *
 *	A's tag  0  1  1  2  2  3  4  4
 *	B's tag  0  0  2  2  4  4  4  6
 *	sent     A  B  A  B  A  A  B  ...	two of A to one of B
 *
 *    (Of equal tags the one that was there first goes first.)
 *
 * 2. Depth. An I/O that is inside the device can't be put in order any more.
 *    Fewer than "depth" in flight: the caller lets I/O pass without asking
 *    and reports what it cost later (ioband_charge()). Otherwise it is held
 *    here, and each completion makes room for one.
 *
 * 3. Idle groups. A group that comes back starts at the later of its own tag
 *    and the clock, less a credit of "carryover" rounds. A round is the time
 *    in which the groups together use up the burst, "token_base". So nobody
 *    hoards and nobody is shut out.
 *
 *    A was idle while B moved the clock from 0 to 5000. With a credit of 4, A
 *    starts at 4996: B, whose next tag is 5001, waits for five I/Os of A (4996 to
 *    5000), not for 5001.
 *
 * 4. Anticipation. A synchronous reader holds nothing in the instant after its
 *    I/O completed, though it may be furthest behind. Serving the others then
 *    would give every group the same share on a disk of depth 1. So each
 *    completion of synchronous I/O is an I/O that is awaited, for a time that
 *    follows from how long the group thinks between I/Os. A slot is kept free
 *    for each awaited I/O that would precede the best held one. The time that
 *    slots stand idle is added up; above 2 % of the time in use nothing is
 *    awaited until it has sunk.
 *
 *    Disk of depth 4, all four slots free: three I/Os of A completed, which has no
 *    more (its next tags would be 7, 8 and 9), and one of B, which holds more (tags
 *    9 and 11). Two of A's precede B's first: two slots are kept, and B's goes.
 *    All three precede B's second: it waits. A comes back microseconds later, and
 *    all four slots are busy, in the right order.
 *
 * 5. Trees. A group may have a parent. Weights compare among siblings: each group
 *    has a clock for its children, and a tag in the level it is in itself. The
 *    search goes down from the top, always to the least tag. An idle child's
 *    share goes to its siblings, because the parent's tag moves only by what
 *    any of them used. A parent's own I/O competes with its children's as if
 *    it were one of them, with the parent's weight.
 *
 * 6. Limits and minimums. A limit is a token bucket (dm-ioband-limit.c) of a
 *    group; an I/O must pass its group's and all ancestors'. A group whose I/O
 *    may not pass is paused, in that direction, until the bucket has filled,
 *    and is not looked at before. A group with a minimum has a time at which
 *    it is due: the last time plus what it was sent since, at that rate. While
 *    that is in the past it goes before all tags (mClock: A. Gulati, A.
 *    Merchant, P. Varman, OSDI 2010). All that it is sent counts, by turn of
 *    tags or of the minimum.
 *
 * 7. Inside a group reads and writes wait apart and take turns by tokens used;
 *    each is in order of I/O priority, then of arrival. Once in a second the
 *    oldest goes first whatever its priority, so that nothing waits for ever.
 */
#include <linux/bits.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/string.h>
#include <linux/time64.h>

#include "dm-ioband-policy.h"

/* Means follow 1/8 of each new sample: quick, but deaf to a single one. */
#define MEAN_SHIFT		3
/* A group that thinks for more than 1/8 of an I/O's time isn't awaited. */
#define THINK_SHIFT		3
/* An awaited I/O is given up at this multiple of the mean thinking time, ... */
#define AWAIT_THINKS		4
/* ... plus the time the submitter may need to be scheduled, ... */
#define AWAIT_SLACK_NS		(10 * NSEC_PER_USEC)
/* ... but at 1/4 of an I/O's time at the latest. */
#define AWAIT_SHIFT		2
/* Idle slots may cost 1/50 of the time in use, plus this many I/Os' time. */
#define LOST_PART		50
#define LOST_GRACE_IOS		16
/* Half of it fades, and what it pays for, when this much has been added up. */
#define BUSY_FADE_NS		(4 * NSEC_PER_SEC)
/* Longest time that an I/O is passed over for its priority. */
#define AGE_NS			NSEC_PER_SEC
/* Span over which the pace of the clock is measured. */
#define PACE_NS			(100 * NSEC_PER_MSEC)
/* Without I/O of another for so long, a group has the disk to itself. */
#define LONE_NS			(NSEC_PER_SEC / 2)
/* A group that couldn't get its minimum catches up on this much time. */
#define DUE_MAX_NS		((u64)NSEC_PER_SEC)

/*
 * Tags wrap around. No lead, lag, burst or credit may be longer than this, so
 * that differences keep their sign; ioband_sched.shares is walked each time
 * that the clock has moved by as much.
 */
#define TAG_SPAN		BIT_ULL(60)

#define KEY_PRIO_SHIFT		56

static u32 cost_ios(u32 sectors, u32 ios)
{
	return ios;
}

static u32 cost_sectors(u32 sectors, u32 ios)
{
	return sectors ?: 1;
}

static void claim_weight(const u32 *params, struct ioband_claim *claim)
{
	claim->weight = params[0];
}

static const char *check_range(const u32 *params)
{
	if (params[1] < params[0])
		return "max must not be below min (0:0 is best effort)";
	return NULL;
}

/*
 * All groups have the same weight, and all that a group is sent counts: on a disk
 * of 10 a minimum of 6 beside two groups without leaves 2 for each of these.
 */
static void claim_range(const u32 *params, struct ioband_claim *claim)
{
	claim->weight = IOBAND_WEIGHT_DEFAULT;
	claim->min_bps = (u64)params[0] * 1024;
	claim->max_bps = (u64)params[1] * 1024;
}

#define PARAM_WEIGHT	{ "weight", "weight", IOBAND_WEIGHT_MIN, \
			  IOBAND_WEIGHT_MAX, IOBAND_WEIGHT_DEFAULT }

static const struct ioband_policy ioband_policies[] = {
	{
		.name		= "weight",
		.nr_params	= 1,
		.params		= { PARAM_WEIGHT },
		.unit		= 1,
		.cost		= cost_ios,
		.claim		= claim_weight,
	}, {
		.name		= "weight-iosize",
		.nr_params	= 1,
		.params		= { PARAM_WEIGHT },
		.unit		= 8,
		.cost		= cost_sectors,
		.claim		= claim_weight,
	}, {
		.name		= "range-bw",
		.nr_params	= 2,
		.params		= {
			{ "min", "min_kbps", 0, U32_MAX, 0 },
			{ "max", "max_kbps", 0, U32_MAX, 0 },
		},
		.unit		= 8,
		.cost		= cost_sectors,
		.check		= check_range,
		.claim		= claim_range,
	},
};

/**
 * ioband_policy_next - walk over the policies
 * @p: the one before, NULL to begin
 *
 * Context: any.
 * Return: the next policy, NULL after the last.
 */
const struct ioband_policy *ioband_policy_next(const struct ioband_policy *p)
{
	if (!p)
		return ioband_policies;
	return ++p < ioband_policies + ARRAY_SIZE(ioband_policies) ? p : NULL;
}

/**
 * ioband_policy_find - find a policy by its word in the table line
 * @name: the word; "default" is the first policy
 *
 * Context: any.
 * Return: the policy, NULL if there is none of that name.
 */
const struct ioband_policy *ioband_policy_find(const char *name)
{
	const struct ioband_policy *p = NULL;

	if (!strcmp(name, "default"))
		return ioband_policies;
	while ((p = ioband_policy_next(p)))
		if (!strcmp(name, p->name))
			break;
	return p;
}

static bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static u64 later(u64 a, u64 b)
{
	return before(a, b) ? b : a;
}

/* Rounds down: by less than 1/100,000 of a token at the largest weight. */
static u64 tokens_to_tag(u64 tokens, u64 weight)
{
	return div64_u64(tokens << IOBAND_TAG_SHIFT, weight);
}

static void mean_add(u64 *mean, u64 sample)
{
	if (*mean)
		*mean += ((s64)(sample - *mean)) >> MEAN_SHIFT;
	else
		*mean = sample;
	/* 0 means unknown. */
	if (!*mean)
		*mean = 1;
}

static struct ioband_level *level_of(const struct ioband_share *g)
{
	return g->parent ? &g->parent->below : &g->sched->root;
}

/* The burst: how far a group may be ahead of its level's clock, as a tag. */
static u64 burst_tag(const struct ioband_sched *s, const struct ioband_level *l)
{
	u64 tokens = s->token_base ?: (u64)s->depth * s->policy->unit;
	u64 weights = max_t(u64, l->weights, 1);

	return min(tokens_to_tag(min_t(u64, tokens, U32_MAX), weights),
		   TAG_SPAN);
}

/* Where a group would start if its next I/O came now. */
static u64 start_tag(const struct ioband_share *g)
{
	const struct ioband_sched *s = g->sched;
	const struct ioband_level *l = level_of(g);
	u64 credit;

	if (check_mul_overflow(burst_tag(s, l), (u64)s->carryover, &credit))
		credit = TAG_SPAN;
	return later(g->tag, l->tag - min(credit, TAG_SPAN));
}

static void level_init(struct ioband_level *l)
{
	l->timeline[IOBAND_READ] = RB_ROOT_CACHED;
	l->timeline[IOBAND_WRITE] = RB_ROOT_CACHED;
}

/* The group of a node in the tree of a direction, NULL for none. */
static struct ioband_share *timeline_share(struct rb_node *n, int dir)
{
	return n ? rb_entry(n - dir, struct ioband_share, node[0]) : NULL;
}

static struct ioband_share *level_first(const struct ioband_level *l, int dir)
{
	return timeline_share(rb_first_cached(&l->timeline[dir]), dir);
}

/**
 * ioband_sched_init - set up the scheduling state of a domain
 * @s: the state
 * @p: policy
 * @depth: I/Os in flight at which holding starts, >= 1
 *
 * Context: any; nobody else uses @s yet.
 */
void ioband_sched_init(struct ioband_sched *s, const struct ioband_policy *p,
		       u32 depth)
{
	memset(s, 0, sizeof(*s));
	s->policy = p;
	level_init(&s->root);
	s->paused = RB_ROOT_CACHED;
	s->reserved = RB_ROOT_CACHED;
	s->due = RB_ROOT_CACHED;
	s->thirsty = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&s->returning);
	INIT_LIST_HEAD(&s->shares);
	s->depth = depth;
	s->carryover = IOBAND_CARRYOVER_DEFAULT;
}

static void forget_lone(struct ioband_sched *s)
{
	s->lone = NULL;
	if (s->find)
		s->depth = ioband_depth_alone(&s->finder, false);
}

/* I/O of a group arrived. Is there another one? */
static void note_group(struct ioband_sched *s, const struct ioband_share *g,
		       u64 now_ns)
{
	if (!s->find)
		return;
	if (s->lone != g) {
		forget_lone(s);
		s->lone = g;
		s->lone_ns = now_ns;
	} else if (now_ns - s->lone_ns >= LONE_NS && s->held == g->held &&
		   s->inside == g->inside) {
		s->depth = ioband_depth_alone(&s->finder, true);
	}
}

/**
 * ioband_alone - the group that has the disk to itself
 * @s: the domain's state
 *
 * Return: NULL if there are several. Else the depth suits that group only, and
 * all I/O of any other must be told to the core.
 */
const struct ioband_share *ioband_alone(const struct ioband_sched *s)
{
	return s->find && s->finder.alone ? s->lone : NULL;
}

/**
 * ioband_sched_set_depth - change the depth
 * @s: the domain's state
 * @depth: I/Os in flight at which holding starts, >= 1
 *
 * The caller asks ioband_peek() afterwards: there may be room now.
 */
void ioband_sched_set_depth(struct ioband_sched *s, u32 depth)
{
	forget_lone(s);
	s->find = false;
	s->depth = depth;
}

/**
 * ioband_sched_find_depth - have the depth found, and found again
 * @s: the domain's state
 * @most: largest depth that may be found, >= 1
 *
 * ioband_done() changes @s->depth from now on.
 */
void ioband_sched_find_depth(struct ioband_sched *s, u32 most)
{
	if (!s->find || s->finder.most != most) {
		forget_lone(s);
		ioband_depth_start(&s->finder, most);
	}
	s->find = true;
	s->depth = s->finder.depth;
}

/**
 * ioband_share_init - set up the scheduling state of a group
 * @g: the state
 * @s: domain that the group will be scheduled in
 * @largest: bytes of the largest I/O: least size of the limits' buckets
 * @largest_ios: requests that the lower device makes of it
 *
 * The group has the default weight, no limits and no parent, and takes no part
 * in shares before ioband_share_activate().
 *
 * Context: any; nobody else uses @g yet, and @s isn't written.
 */
void ioband_share_init(struct ioband_share *g, struct ioband_sched *s,
		       u32 largest, u32 largest_ios)
{
	int dir;

	memset(g, 0, sizeof(*g));
	g->sched = s;
	level_init(&g->below);
	for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
		RB_CLEAR_NODE(&g->node[dir]);
		RB_CLEAR_NODE(&g->pause[dir].node);
		g->pause[dir].share = g;
		g->queue[dir].reqs = RB_ROOT_CACHED;
		INIT_LIST_HEAD(&g->queue[dir].fifo);
	}
	RB_CLEAR_NODE(&g->reserved);
	RB_CLEAR_NODE(&g->thirsty);
	INIT_LIST_HEAD(&g->all);
	INIT_LIST_HEAD(&g->returning);
	g->weight = IOBAND_WEIGHT_DEFAULT;
	g->burst_ns = IOBAND_BURST_NS;
	g->largest = largest;
	g->largest_ios = largest_ios;
}

static bool thirsty_less(struct rb_node *a, const struct rb_node *b)
{
	return before(rb_entry(a, struct ioband_share, thirsty)->tag,
		      rb_entry(b, struct ioband_share, thirsty)->tag);
}

/* Trees are left out: what a level's siblings hold stands for each other. */
static void thirsty_update(struct ioband_share *g)
{
	bool thirsty = g->sched->find && g->active && !g->parent && !g->held &&
		       g->inside;

	if (!RB_EMPTY_NODE(&g->thirsty)) {
		rb_erase_cached(&g->thirsty, &g->sched->thirsty);
		RB_CLEAR_NODE(&g->thirsty);
	}
	if (thirsty)
		rb_add_cached(&g->thirsty, &g->sched->thirsty, thirsty_less);
}

/* Is a group behind one with @tag, though all of its I/O is in the disk? */
static bool any_dry(const struct ioband_sched *s, u64 tag)
{
	struct rb_node *n = rb_first_cached(&s->thirsty);

	return n && before(rb_entry(n, struct ioband_share, thirsty)->tag, tag);
}

static void forget_returns(struct ioband_share *g)
{
	g->done_nr = 0;
	list_del_init(&g->returning);
}

/**
 * ioband_share_deactivate - end a group's part in shares
 * @g: the group, which holds nothing (ioband_drain())
 *
 * Its children, if any, stay below it.
 */
void ioband_share_deactivate(struct ioband_share *g)
{
	if (!g->active)
		return;
	g->active = false;
	thirsty_update(g);
	level_of(g)->weights -= g->weight;
	list_del_init(&g->all);
	if (g->sched->batch == g)
		g->sched->batch = NULL;
	if (g->sched->lone == g)
		forget_lone(g->sched);
	forget_returns(g);
}

/*
 * Where a group is, by direction: in its level's timeline while it or a child
 * has I/O that may be looked at, among the paused while a limit of its own
 * forbids that, else nowhere.
 */

static bool in_timeline(const struct ioband_share *g, int dir)
{
	return !RB_EMPTY_NODE(&g->node[dir]);
}

static bool is_paused(const struct ioband_share *g, int dir)
{
	return !RB_EMPTY_NODE(&g->pause[dir].node);
}

static bool has_own(const struct ioband_share *g, int dir)
{
	return !RB_EMPTY_ROOT(&g->queue[dir].reqs.rb_root);
}

static bool has_below(const struct ioband_share *g, int dir)
{
	return !RB_EMPTY_ROOT(&g->below.timeline[dir].rb_root);
}

static bool read_less(struct rb_node *a, const struct rb_node *b)
{
	return before(rb_entry(a, struct ioband_share, node[IOBAND_READ])->tag,
		      rb_entry(b, struct ioband_share, node[IOBAND_READ])->tag);
}

static bool write_less(struct rb_node *a, const struct rb_node *b)
{
	return before(rb_entry(a, struct ioband_share, node[IOBAND_WRITE])->tag,
		      rb_entry(b, struct ioband_share, node[IOBAND_WRITE])->tag);
}

static bool due_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct ioband_share, reserved)->due_ns <
	       rb_entry(b, struct ioband_share, reserved)->due_ns;
}

static bool due_tag_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct ioband_share, reserved)->due_tag <
	       rb_entry(b, struct ioband_share, reserved)->due_tag;
}

static bool pause_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct ioband_pause, node)->ready_ns <
	       rb_entry(b, struct ioband_pause, node)->ready_ns;
}

static void reserved_del(struct ioband_share *g)
{
	if (!RB_EMPTY_NODE(&g->reserved)) {
		rb_erase_cached(&g->reserved, g->due ? &g->sched->due :
						       &g->sched->reserved);
		RB_CLEAR_NODE(&g->reserved);
		g->due = false;
	}
}

static void reserved_add(struct ioband_share *g)
{
	if (g->min_bps && RB_EMPTY_NODE(&g->reserved) &&
	    (in_timeline(g, IOBAND_READ) || in_timeline(g, IOBAND_WRITE)))
		rb_add_cached(&g->reserved, &g->sched->reserved, due_less);
}

/* Those that fell behind their minimum since the last look. */
static void due_enter(struct ioband_sched *s, u64 now_ns)
{
	struct rb_node *n;

	while ((n = rb_first_cached(&s->reserved))) {
		struct ioband_share *g;

		g = rb_entry(n, struct ioband_share, reserved);
		if (g->due_ns > now_ns)
			break;
		reserved_del(g);
		g->due = true;
		g->due_tag = max(g->due_tag, s->due_tag);
		rb_add_cached(&g->reserved, &s->due, due_tag_less);
	}
}

static void timeline_add(struct ioband_share *g, int dir)
{
	rb_add_cached(&g->node[dir], &level_of(g)->timeline[dir],
		      dir == IOBAND_READ ? read_less : write_less);
	reserved_add(g);
}

static void timeline_del(struct ioband_share *g, int dir)
{
	rb_erase_cached(&g->node[dir], &level_of(g)->timeline[dir]);
	RB_CLEAR_NODE(&g->node[dir]);
	if (!in_timeline(g, !dir))
		reserved_del(g);
}

static void unpause(struct ioband_share *g, int dir)
{
	rb_erase_cached(&g->pause[dir].node, &g->sched->paused);
	RB_CLEAR_NODE(&g->pause[dir].node);
}

/* A group moves to another tag, or leaves and comes back by the caller. */
static unsigned int timeline_out(struct ioband_share *g)
{
	unsigned int dirs = 0;
	int dir;

	for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
		if (in_timeline(g, dir)) {
			dirs |= BIT(dir);
			timeline_del(g, dir);
		}
	}
	return dirs;
}

static void timeline_in(struct ioband_share *g, unsigned int dirs)
{
	int dir;

	for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
		if (dirs & BIT(dir))
			timeline_add(g, dir);
}

/* Would a group with a later tag still be before the next one? */
static bool keeps_place(const struct ioband_share *g, u64 tag)
{
	const struct ioband_share *next;
	int dir;

	if (before(tag, g->tag))
		return false;
	for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
		if (!in_timeline(g, dir))
			continue;
		next = timeline_share(rb_next(&g->node[dir]), dir);
		/* Of equal ones the one that came last is last. */
		if (next && !before(tag, next->tag))
			return false;
	}
	return true;
}

static void set_tag(struct ioband_share *g, u64 tag)
{
	unsigned int dirs;

	if (keeps_place(g, tag)) {
		g->tag = tag;
	} else {
		dirs = timeline_out(g);
		g->tag = tag;
		timeline_in(g, dirs);
	}
	if (!RB_EMPTY_NODE(&g->thirsty))
		thirsty_update(g);
}

/**
 * ioband_share_activate - let a group take part in shares
 * @g: the group
 */
void ioband_share_activate(struct ioband_share *g)
{
	if (g->active)
		return;
	g->active = true;
	set_tag(g, level_of(g)->tag);
	g->own_tag = g->below.tag;
	level_of(g)->weights += g->weight;
	list_add_tail(&g->all, &g->sched->shares);
}

/* A group, and so its ancestors, has I/O to look at in a direction. */
static void share_enter(struct ioband_share *g, int dir, u64 now_ns)
{
	for (; g && !in_timeline(g, dir) && !is_paused(g, dir); g = g->parent) {
		if (!in_timeline(g, !dir)) {
			set_tag(g, start_tag(g));
			g->due_ns = max(g->due_ns, now_ns);
		}
		timeline_add(g, dir);
	}
}

/* A group, and so perhaps its ancestors, has nothing left in a direction. */
static void share_leave(struct ioband_share *g, int dir)
{
	for (; g && !has_own(g, dir) && !has_below(g, dir); g = g->parent) {
		if (in_timeline(g, dir))
			timeline_del(g, dir);
		else if (is_paused(g, dir))
			unpause(g, dir);
		else
			break;
	}
}

static void share_pause(struct ioband_share *g, int dir, u64 ready_ns,
			enum ioband_limit limit)
{
	timeline_del(g, dir);
	g->pause[dir].ready_ns = ready_ns;
	g->pause[dir].limit = limit;
	rb_add_cached(&g->pause[dir].node, &g->sched->paused, pause_less);
	share_leave(g->parent, dir);
}

static struct ioband_pause *first_pause(const struct ioband_sched *s)
{
	struct rb_node *n = rb_first_cached(&s->paused);

	return n ? rb_entry(n, struct ioband_pause, node) : NULL;
}

static void resume_share(struct ioband_share *g, int dir, u64 now_ns)
{
	unpause(g, dir);
	share_enter(g, dir, now_ns);
}

static void resume_ready(struct ioband_sched *s, u64 now_ns)
{
	struct ioband_pause *p;

	while ((p = first_pause(s)) && p->ready_ns <= now_ns)
		resume_share(p->share, p - p->share->pause, now_ns);
}

/* Settings changed: let the next look decide anew. */
static void resume_tree(struct ioband_share *g, u64 now_ns)
{
	int dir;

	for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
		if (is_paused(g, dir))
			resume_share(g, dir, now_ns);
}

/*
 * The least size of the limit's bucket: the largest I/O in its tokens. The
 * maximum of a range keeps closer: a larger I/O leaves a debt.
 */
static u32 limit_least(const struct ioband_share *g, enum ioband_limit limit)
{
	switch (limit) {
	case IOBAND_MAX_BW:
		return 0;
	case IOBAND_RIOPS:
	case IOBAND_WIOPS:
		return g->largest_ios;
	default:
		return g->largest;
	}
}

static void set_limit(struct ioband_share *g, enum ioband_limit limit, u64 rate,
		      u64 burst_ns, u64 now_ns)
{
	ioband_bucket_set(&g->bucket[limit], rate, limit_least(g, limit),
			  g->burst_ns, burst_ns, now_ns);
	if (rate)
		g->limited |= BIT(limit);
	else
		g->limited &= ~BIT(limit);
}

/* A lead keeps its tokens when they are divided by another weight. */
static u64 scale_tag(u64 clock, u64 tag, u32 old, u32 new)
{
	u64 lead = tag - clock;

	if (!before(clock, tag))
		return tag;
	if (div_u64(lead, new) >= div_u64(TAG_SPAN, old))
		return clock + TAG_SPAN;
	return clock + mul_u64_u64_div_u64(lead, old, new);
}

/**
 * ioband_share_set_claim - change what a group may claim
 * @g: the group
 * @claim: weight, minimum, maximum
 * @now_ns: time
 *
 * The group keeps its lead in tokens, so that what it used before the change is
 * neither forgotten nor weighed anew, and its lag as it is; the others keep both.
 * The caller asks ioband_peek() afterwards.
 */
void ioband_share_set_claim(struct ioband_share *g,
			    const struct ioband_claim *claim, u64 now_ns)
{
	struct ioband_level *l = level_of(g);
	unsigned int dirs;

	resume_tree(g, now_ns);
	dirs = timeline_out(g);
	set_tag(g, scale_tag(l->tag, g->tag, g->weight, claim->weight));
	g->own_tag = scale_tag(g->below.tag, g->own_tag, g->weight,
			       claim->weight);
	if (g->active)
		l->weights += (u64)claim->weight - g->weight;
	g->weight = claim->weight;
	if (g->min_bps != claim->min_bps)
		g->due_ns = now_ns;
	g->min_bps = claim->min_bps;
	if (g->bucket[IOBAND_MAX_BW].rate != claim->max_bps)
		set_limit(g, IOBAND_MAX_BW, claim->max_bps, g->burst_ns,
			  now_ns);
	timeline_in(g, dirs);
}

/**
 * ioband_share_set_limits - change a group's limits
 * @g: the group
 * @rates: bytes or I/Os a second for IOBAND_RBPS to IOBAND_WIOPS, 0 for none
 * @burst_ns: size of the buckets in time
 * @now_ns: time
 *
 * The caller asks ioband_peek() afterwards: what the old limits held may pass.
 */
void ioband_share_set_limits(struct ioband_share *g, const u64 *rates,
			     u64 burst_ns, u64 now_ns)
{
	enum ioband_limit i;

	for (i = 0; i < IOBAND_NR_LIMITS; i++) {
		u64 rate = i == IOBAND_MAX_BW ? g->bucket[i].rate : rates[i];

		if (rate != g->bucket[i].rate || burst_ns != g->burst_ns)
			set_limit(g, i, rate, burst_ns, now_ns);
	}
	g->burst_ns = burst_ns;
	resume_tree(g, now_ns);
}

/**
 * ioband_share_set_parent - put a group, with all below it, below another
 * @g: the group
 * @parent: the new parent, not @g or below it; NULL for the top
 * @now_ns: time
 *
 * It starts there without lead or lag. The caller asks ioband_peek()
 * afterwards.
 */
void ioband_share_set_parent(struct ioband_share *g,
			     struct ioband_share *parent, u64 now_ns)
{
	unsigned int dirs = timeline_out(g);
	bool active = g->active;
	int dir;

	for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
		if (dirs & BIT(dir))
			share_leave(g->parent, dir);
	ioband_share_deactivate(g);
	/* A child's burst is also that of one who takes no part. */
	if (g->sched->batch == g)
		g->sched->batch = NULL;
	g->parent = parent;
	g->tag = level_of(g)->tag;
	if (active)
		ioband_share_activate(g);
	for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
		if (has_own(g, dir) || has_below(g, dir))
			share_enter(g, dir, now_ns);
}

/**
 * ioband_share_limited - may a group's I/O be held though there is room?
 * @g: the group
 *
 * Return: true if a limit of its own or of an ancestor is set.
 */
bool ioband_share_limited(const struct ioband_share *g)
{
	for (; g; g = g->parent)
		if (g->limited)
			return true;
	return false;
}

/**
 * ioband_sched_set_policy - charge I/O in another way
 * @s: the domain's state
 * @p: the policy
 *
 * Tags are in tokens of the old policy: all groups start anew. The caller sets
 * each group's claim afterwards.
 */
void ioband_sched_set_policy(struct ioband_sched *s,
			     const struct ioband_policy *p)
{
	struct ioband_share *g;

	s->policy = p;
	s->batch = NULL;
	list_for_each_entry(g, &s->shares, all) {
		set_tag(g, level_of(g)->tag);
		g->own_tag = g->below.tag;
		g->queue[IOBAND_READ].used = 0;
		g->queue[IOBAND_WRITE].used = 0;
		g->tokens_last = p->unit;
	}
}

/* When the I/O that follows a completion is no longer awaited. */
static u64 await_until(const struct ioband_share *g, u64 done_ns)
{
	u64 wait = g->think_ns * AWAIT_THINKS + AWAIT_SLACK_NS;

	return done_ns + min(wait, g->sched->service_ns >> AWAIT_SHIFT);
}

static void pop_return(struct ioband_share *g)
{
	g->done_head = (g->done_head + 1) % IOBAND_MAX_RETURNS;
	if (!--g->done_nr)
		list_del_init(&g->returning);
}

static void note_arrival(struct ioband_share *g, u64 now_ns)
{
	u64 stale = g->sched->service_ns * 2;

	while (g->done_nr) {
		u64 think = now_ns - g->done_ns[g->done_head];

		/* Long pauses say that somebody left, not how others think. */
		mean_add(&g->think_ns, min(think, stale));
		pop_return(g);
		if (think <= stale)
			break;
	}
}

static bool worth_awaiting(const struct ioband_share *g)
{
	return g->think_ns &&
	       g->think_ns << THINK_SHIFT <= g->sched->service_ns;
}

static void note_completion(struct ioband_share *g, u64 now_ns)
{
	if (g->done_nr == IOBAND_MAX_RETURNS)
		pop_return(g);
	g->done_ns[(g->done_head + g->done_nr++) % IOBAND_MAX_RETURNS] = now_ns;
	if (list_empty(&g->returning) && worth_awaiting(g))
		list_add_tail(&g->returning, &g->sched->returning);
}

static bool req_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct ioband_req, node)->key <
	       rb_entry(b, struct ioband_req, node)->key;
}

static bool arrived_before(const struct ioband_req *a,
			   const struct ioband_req *b)
{
	return a->key << (64 - KEY_PRIO_SHIFT) < b->key << (64 - KEY_PRIO_SHIFT);
}

static struct ioband_req *queue_first(const struct ioband_queue *q)
{
	struct rb_node *n = rb_first_cached(&q->reqs);

	return n ? rb_entry(n, struct ioband_req, node) : NULL;
}

/**
 * ioband_hold - hold an I/O
 * @g: its group, active
 * @r: the I/O; the core's until ioband_take() or ioband_drain()
 * @now_ns: time
 */
void ioband_hold(struct ioband_share *g, struct ioband_req *r, u64 now_ns)
{
	struct ioband_queue *q = &g->queue[r->dir];
	struct ioband_queue *other = &g->queue[!r->dir];

	note_group(g->sched, g, now_ns);
	if (r->sync)
		note_arrival(g, now_ns);
	/* An idle direction doesn't hoard turns against the other one. */
	if (!queue_first(q))
		q->used = later(q->used, other->used);
	r->held_ns = now_ns;
	r->key = (u64)r->prio << KEY_PRIO_SHIFT | g->sched->seq++;
	rb_add_cached(&r->node, &q->reqs, req_less);
	list_add_tail(&r->fifo, &q->fifo);
	g->sched->held++;
	if (!g->held++)
		g->own_tag = later(g->own_tag, g->below.tag);
	if (!RB_EMPTY_NODE(&g->thirsty))
		thirsty_update(g);
	share_enter(g, r->dir, now_ns);
}

/* The group's own next I/O in one of @dirs; there is one. */
static struct ioband_req *own_first(const struct ioband_share *g,
				    unsigned int dirs, u64 now_ns)
{
	const struct ioband_queue *rq = &g->queue[IOBAND_READ];
	const struct ioband_queue *wq = &g->queue[IOBAND_WRITE];
	struct ioband_req *r, *w, *aged = NULL;
	int dir;

	/* The oldest of each direction, the older one first. */
	for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
		const struct ioband_queue *q = &g->queue[dir];

		if (!(dirs & BIT(dir)))
			continue;
		r = list_first_entry(&q->fifo, struct ioband_req, fifo);
		if ((s64)(now_ns - max(r->held_ns, q->aged_ns)) >= (s64)AGE_NS &&
		    (!aged || arrived_before(r, aged)))
			aged = r;
	}
	if (aged)
		return aged;
	r = dirs & BIT(IOBAND_READ) ? queue_first(rq) : NULL;
	w = dirs & BIT(IOBAND_WRITE) ? queue_first(wq) : NULL;
	if (!r || !w)
		return r ?: w;
	if (r->prio != w->prio)
		return r->prio < w->prio ? r : w;
	return before(wq->used, rq->used) ? w : r;
}

/* The least tag of a level in @dirs; clears those in which it has nothing. */
static struct ioband_share *level_next(const struct ioband_level *l,
				       unsigned int *dirs)
{
	struct ioband_share *r = NULL, *w = NULL, *g;

	if (*dirs & BIT(IOBAND_READ))
		r = level_first(l, IOBAND_READ);
	if (*dirs & BIT(IOBAND_WRITE))
		w = level_first(l, IOBAND_WRITE);
	g = !r || (w && before(w->tag, r->tag)) ? w : r;
	/* Another one of the same tag may be the first of the other tree. */
	if (!g || !in_timeline(g, IOBAND_READ))
		*dirs &= ~BIT(IOBAND_READ);
	if (!g || !in_timeline(g, IOBAND_WRITE))
		*dirs &= ~BIT(IOBAND_WRITE);
	return g;
}

/* The children's least tag in @dirs; NULL, as mostly, if they have nothing. */
static struct ioband_share *child_next(const struct ioband_share *g,
				       unsigned int *dirs)
{
	if (!has_below(g, IOBAND_READ) && !has_below(g, IOBAND_WRITE))
		return NULL;
	return level_next(&g->below, dirs);
}

/* Go down from a group to the I/O that is next in @dirs, and whose it is. */
static struct ioband_req *descend(struct ioband_share *g, unsigned int dirs,
				  u64 now_ns, struct ioband_share **owner)
{
	for (;;) {
		unsigned int own = 0, below = dirs;
		struct ioband_share *child;
		int dir;

		for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
			if ((dirs & BIT(dir)) && has_own(g, dir))
				own |= BIT(dir);
		child = child_next(g, &below);
		/* While a limit above stood, its clock went on without it. */
		while (child && before(child->tag, start_tag(child))) {
			set_tag(child, start_tag(child));
			below = dirs;
			child = child_next(g, &below);
		}
		if (!child || (own && !before(child->tag, g->own_tag))) {
			*owner = g;
			return own_first(g, own, now_ns);
		}
		g = child;
		dirs = below;
	}
}

/* The directions in which a group can be reached from the top. */
static unsigned int reachable(const struct ioband_share *g)
{
	unsigned int dirs = BIT(IOBAND_READ) | BIT(IOBAND_WRITE);
	int dir;

	for (; g; g = g->parent)
		for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
			if (!in_timeline(g, dir))
				dirs &= ~BIT(dir);
	return dirs;
}

/* A group that is behind its minimum, and the directions to look in. */
static struct ioband_share *due_share(const struct ioband_sched *s,
				      unsigned int *dirs)
{
	struct rb_node *n;

	for (n = rb_first_cached(&s->due); n; n = rb_next(n)) {
		struct ioband_share *g;
		unsigned int reach;

		g = rb_entry(n, struct ioband_share, reserved);
		reach = reachable(g);
		if (reach) {
			*dirs = reach;
			return g;
		}
	}
	return NULL;
}

static u64 limit_tokens(enum ioband_limit limit, const struct ioband_req *r)
{
	switch (limit) {
	case IOBAND_RBPS:
		return r->dir == IOBAND_READ ? (u64)r->sectors << 9 : 0;
	case IOBAND_WBPS:
		return r->dir == IOBAND_WRITE ? (u64)r->sectors << 9 : 0;
	case IOBAND_RIOPS:
		return r->dir == IOBAND_READ ? r->ios : 0;
	case IOBAND_WIOPS:
		return r->dir == IOBAND_WRITE ? r->ios : 0;
	default:
		return (u64)r->sectors << 9;
	}
}

/* Does every limit let an I/O pass? Pauses the first group that has one not. */
static bool may_pass(struct ioband_share *g, const struct ioband_req *r,
		     u64 now_ns)
{
	enum ioband_limit i, tightest = 0;
	u64 ready, latest;

	for (; g; g = g->parent) {
		if (!g->limited)
			continue;
		latest = now_ns;
		for (i = 0; i < IOBAND_NR_LIMITS; i++) {
			if (!(g->limited & BIT(i)))
				continue;
			ready = ioband_bucket_ready(&g->bucket[i],
						    limit_tokens(i, r),
						    limit_least(g, i),
						    g->burst_ns, now_ns);
			if (ready > latest) {
				latest = ready;
				tightest = i;
			}
		}
		if (latest > now_ns) {
			share_pause(g, r->dir, latest, tightest);
			/*
			 * A maximum is for both directions: the other one would
			 * take what this I/O waits for.
			 */
			if (tightest == IOBAND_MAX_BW &&
			    in_timeline(g, !r->dir))
				share_pause(g, !r->dir, latest, tightest);
			return false;
		}
	}
	return true;
}

static bool may_await(const struct ioband_sched *s)
{
	return s->lost_ns * LOST_PART <=
	       s->busy_ns + s->service_ns * LOST_GRACE_IOS * LOST_PART;
}

static void stop_idling(struct ioband_sched *s, u64 now_ns)
{
	if (!s->idle_ns)
		return;
	s->lost_ns += (now_ns - s->idle_ns) * s->idle_slots;
	s->idle_ns = 0;
}

/* An I/O that is awaited against one that is held, in the level they meet. */
struct race {
	u64 awaited;	/* tags */
	u64 held;
	u32 weight;	/* by which the awaited one's tag moves on */
	bool top;	/* that level is the top */
};

/*
 * Find the level in which the ways from the top to an idle group and to @owner
 * part. False if something else on the idle group's way holds I/O: that stands
 * for the group.
 */
static bool find_race(const struct ioband_share *g,
		      const struct ioband_share *owner, struct race *race)
{
	const struct ioband_share *top, *o;

	race->top = false;
	for (top = g; top; top = top->parent) {
		if (top != g && (in_timeline(top, IOBAND_READ) ||
				 in_timeline(top, IOBAND_WRITE)))
			return false;
		race->weight = top->weight;
		race->awaited = start_tag(top);
		if (top->parent == owner) {
			race->held = owner->own_tag;
			return true;
		}
		for (o = owner; o && o->parent != top->parent; o = o->parent)
			if (o->parent == g) {
				/* The group's own I/O against its child's. */
				race->awaited = later(g->own_tag, g->below.tag);
				race->held = o->tag;
				return true;
			}
		if (o) {
			race->top = !top->parent;
			race->held = o->tag;
			return o != top;
		}
	}
	return false;
}

/*
 * How many awaited I/Os would precede an I/O of @owner, up to @max. Lowers
 * @until_ns to the time when the first of them is given up.
 */
static u32 count_awaited(struct ioband_sched *s, struct ioband_share *owner,
			 bool batch, u32 max, u64 now_ns, u64 *until_ns)
{
	struct ioband_share *g, *next;
	u32 n = 0;

	list_for_each_entry_safe(g, next, &s->returning, returning) {
		struct race race;
		u64 give_up, step;
		u32 i;

		/* What is held stands for the group itself. */
		if (g->held)
			continue;
		for (i = 0; i < g->done_nr; i++) {
			give_up = await_until(g, g->done_ns[(g->done_head + i) %
							IOBAND_MAX_RETURNS]);
			if (before(now_ns, give_up))
				break;
		}
		if (i == g->done_nr) {
			/* Kept in the ring: it tells the thinking time. */
			list_del_init(&g->returning);
			continue;
		}
		if (!find_race(g, owner, &race))
			continue;
		/* A group that is allowed to go on would do so. */
		if (batch && race.top)
			race.awaited += burst_tag(s, &s->root) / 2;
		if (!before(race.awaited, race.held))
			continue;
		step = tokens_to_tag(g->tokens_last, race.weight);
		*until_ns = *until_ns ? min(*until_ns, give_up) : give_up;
		for (; i < g->done_nr && before(race.awaited, race.held); i++) {
			race.awaited += step;
			if (++n >= max)
				return n;
		}
	}
	return n;
}

static struct ioband_share *batch_share(const struct ioband_sched *s,
					unsigned int *dirs)
{
	struct ioband_share *g = s->batch, *first;
	unsigned int all = BIT(IOBAND_READ) | BIT(IOBAND_WRITE);

	if (!g)
		return NULL;
	first = level_next(&s->root, &all);
	if (!first || before(first->tag + burst_tag(s, &s->root) / 2, g->tag))
		return NULL;
	all = reachable(g);
	if (!all)
		return NULL;
	*dirs = all;
	return g;
}

/*
 * The next I/O in order, before its limits are looked at: that of a group that is due,
 * of the one that is served in a batch, or of the one with the least tag.
 */
static struct ioband_req *next_in_order(const struct ioband_sched *s, u64 now_ns,
					struct ioband_share **owner, bool *due,
					bool *batch)
{
	unsigned int dirs = BIT(IOBAND_READ) | BIT(IOBAND_WRITE);
	struct ioband_share *g = due_share(s, &dirs);

	*due = g;
	if (!g) {
		g = batch_share(s, &dirs);
		*batch = g;
	}
	if (!g)
		g = level_next(&s->root, &dirs);
	return g ? descend(g, dirs, now_ns, owner) : NULL;
}

/**
 * ioband_peek - find the held I/O that may go now
 * @s: the domain's state
 * @in_flight: I/Os in flight at the lower devices
 * @now_ns: time
 * @until_ns: set to the time to ask again if nothing else happens, 0 for never
 *
 * Changes nothing that matters until ioband_take() is called; the caller may
 * as well leave the I/O where it is.
 *
 * Return: the I/O, NULL if nothing may go.
 */
struct ioband_req *ioband_peek(struct ioband_sched *s, u32 in_flight,
			       u64 now_ns, u64 *until_ns)
{
	const struct ioband_pause *pause;
	bool due = false, batch = false;
	struct ioband_share *owner;
	struct ioband_req *r;
	u32 slots, awaited;

	*until_ns = 0;
	if (in_flight >= s->depth) {
		stop_idling(s, now_ns);
		return NULL;
	}
	resume_ready(s, now_ns);
	due_enter(s, now_ns);
	do {
		r = next_in_order(s, now_ns, &owner, &due, &batch);
	} while (r && !may_pass(owner, r, now_ns));
	if (r && !due && !list_empty(&s->returning) && may_await(s)) {
		slots = s->depth - in_flight;
		awaited = count_awaited(s, owner, batch, slots, now_ns,
					until_ns);
		if (awaited < slots) {
			*until_ns = 0;
		} else {
			r = NULL;
			s->idles += !s->idle_ns;
			stop_idling(s, now_ns);
			s->idle_ns = now_ns;
			s->idle_slots = awaited;
		}
	}
	if (!*until_ns)
		stop_idling(s, now_ns);
	pause = first_pause(s);
	if (!r && pause && (!*until_ns || pause->ready_ns < *until_ns))
		*until_ns = pause->ready_ns;
	return r;
}

static void req_unlink(struct ioband_share *g, struct ioband_req *r)
{
	rb_erase_cached(&r->node, &g->queue[r->dir].reqs);
	list_del(&r->fifo);
	g->sched->held--;
	g->held--;
}

static void clock_advance(struct ioband_sched *s, struct ioband_level *l,
			  u64 tag)
{
	struct ioband_share *g;

	l->tag = later(l->tag, tag);
	if (l->tag - l->span_tag < TAG_SPAN)
		return;
	l->span_tag = l->tag;
	if (l != &s->root) {
		g = container_of(l, struct ioband_share, below);
		g->own_tag = later(g->own_tag, l->tag - TAG_SPAN);
	}
	list_for_each_entry(g, &s->shares, all)
		if (level_of(g) == l)
			set_tag(g, later(g->tag, l->tag - TAG_SPAN));
}

/* The tag of a group that is served, or a lesser one that could be instead. */
static u64 least_tag(const struct ioband_share *g)
{
	const struct ioband_share *p = g->parent, *first;
	const struct ioband_level *l = level_of(g);
	unsigned int dirs = p ? reachable(p) : BIT(IOBAND_READ) |
					       BIT(IOBAND_WRITE);
	u64 tag = g->tag;
	int dir;

	for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
		if (!(dirs & BIT(dir)))
			continue;
		if (p && has_own(p, dir) && before(p->own_tag, tag))
			tag = p->own_tag;
		first = level_first(l, dir);
		if (first && before(first->tag, tag))
			tag = first->tag;
	}
	return tag;
}

static void count_rounds(struct ioband_sched *s)
{
	struct ioband_level *l = &s->root;
	u64 round = burst_tag(s, l);

	if (round && l->tag - s->round_tag >= round) {
		u64 n = div64_u64(l->tag - s->round_tag, round);

		s->rounds += n;
		s->round_tag += n * round;
	}
}

static void measure_pace(struct ioband_level *l, u64 now_ns)
{
	if (now_ns - l->pace_ns < PACE_NS)
		return;
	l->pace = mul_u64_u64_div_u64(min(l->tag - l->pace_tag, TAG_SPAN),
				      NSEC_PER_SEC, now_ns - l->pace_ns);
	l->pace_ns = now_ns;
	l->pace_tag = l->tag;
}

/* Take an I/O out of a group's and its ancestors' buckets and minimums. */
static void charge_rates(struct ioband_share *g, const struct ioband_req *r,
			 u64 now_ns)
{
	enum ioband_limit i;

	if (g->min_bps) {
		struct ioband_sched *s = g->sched;
		u64 step = div64_u64(((u64)r->sectors << 9) * NSEC_PER_SEC,
				     g->min_bps);

		if (g->due)
			s->due_tag = max(s->due_tag, g->due_tag);
		reserved_del(g);
		g->due_ns = max(g->due_ns, now_ns - min(now_ns, DUE_MAX_NS)) +
			    step;
		g->due_tag = max(g->due_tag, s->due_tag) + step;
		reserved_add(g);
	}
	for (i = 0; g->limited && i < IOBAND_NR_LIMITS; i++)
		if (g->limited & BIT(i))
			ioband_bucket_take(&g->bucket[i], limit_tokens(i, r),
					   now_ns);
}

/**
 * ioband_take - take a held I/O to be sent
 * @g: its group
 * @r: what ioband_peek() returned; the caller's again
 * @now_ns: time
 *
 * Charges the group and its ancestors.
 */
void ioband_take(struct ioband_share *g, struct ioband_req *r, u64 now_ns)
{
	struct ioband_queue *q = &g->queue[r->dir];
	struct ioband_sched *s = g->sched;
	struct ioband_share *owner;
	struct ioband_req *behind;
	u32 tokens = min(s->policy->cost(r->sectors, r->ios),
			 IOBAND_MAX_TOKENS);

	if (r == list_first_entry(&q->fifo, struct ioband_req, fifo))
		q->aged_ns = now_ns;
	req_unlink(g, r);
	q->used += tokens;
	/* What goes before by its priority isn't owed for. */
	behind = queue_first(&g->queue[!r->dir]);
	if (behind && behind->prio != r->prio)
		g->queue[!r->dir].used = later(g->queue[!r->dir].used, q->used);
	g->tokens_last = tokens;
	clock_advance(s, &g->below, g->own_tag);
	g->own_tag += tokens_to_tag(tokens, g->weight);
	measure_pace(&g->below, now_ns);
	share_leave(g, r->dir);
	s->batch = s->token_base ? g : NULL;
	r->sent_ns = now_ns;
	s->inside++;
	g->inside++;
	if (s->find && !g->parent) {
		s->finder.sent += tokens;
		if (any_dry(s, g->tag))
			s->finder.dry += tokens;
	}
	owner = g;
	for (; g; g = g->parent) {
		struct ioband_level *l = level_of(g);

		clock_advance(s, l, least_tag(g));
		/* What a minimum gives out of turn isn't a lead without end. */
		if (!before(l->tag + burst_tag(s, l) / 2, g->tag))
			set_tag(g, g->tag + tokens_to_tag(tokens, g->weight));
		measure_pace(l, now_ns);
		charge_rates(g, r, now_ns);
		if (s->batch && g->parent)
			s->batch = g->parent;
	}
	if (s->find)
		thirsty_update(owner);
	count_rounds(s);
}

/**
 * ioband_wants_room - is anything held for want of room alone?
 * @s: the domain's state
 *
 * Return: false if nothing is held, or if a limit forbids all that is.
 */
bool ioband_wants_room(const struct ioband_sched *s)
{
	return !RB_EMPTY_ROOT(&s->root.timeline[IOBAND_READ].rb_root) ||
	       !RB_EMPTY_ROOT(&s->root.timeline[IOBAND_WRITE].rb_root);
}

/**
 * ioband_done - tell of the completion of an I/O
 * @g: its group
 * @r: the I/O, whether it was ever held or not
 * @now_ns: time
 *
 * The caller asks ioband_peek() afterwards: there may be room now, also because
 * the depth may be another one.
 */
void ioband_done(struct ioband_share *g, struct ioband_req *r, u64 now_ns)
{
	struct ioband_sched *s = g->sched;

	if (r->sent_ns) {
		u64 service = now_ns - r->sent_ns;

		mean_add(&s->service_ns, service);
		s->busy_ns += service;
		if (s->busy_ns > BUSY_FADE_NS) {
			/* What was paid for is forgotten, the rest isn't. */
			s->busy_ns -= BUSY_FADE_NS / 2;
			s->lost_ns -= min_t(u64, s->lost_ns,
					    BUSY_FADE_NS / 2 / LOST_PART);
		}
	}
	if (r->sync && g->active)
		note_completion(g, now_ns);
	if (r->sent_ns) {
		s->inside--;
		g->inside--;
		if (!g->inside && !RB_EMPTY_NODE(&g->thirsty))
			thirsty_update(g);
	}
	if (s->find) {
		s->depth = ioband_depth_done(&s->finder,
					     s->policy->cost(r->sectors, r->ios),
					     s->inside + s->held + 1,
					     ioband_wants_room(s), now_ns);
		if (!s->inside && !s->held)
			s->depth = ioband_depth_idle(&s->finder, false);
	}
}

/**
 * ioband_sent - tell of I/O that was handed to the disk
 * @s: the domain's state
 * @ios: how many, by a thread that sees whether it had to wait
 * @stuck: of these, for which there was no place in the disk's queue
 */
void ioband_sent(struct ioband_sched *s, u32 ios, u32 stuck)
{
	if (s->find)
		ioband_depth_sent(&s->finder, ios, stuck);
}

/* A tag that is charged, up to half of the burst or @debt beyond the clock. */
static u64 charge_tag(const struct ioband_level *l, u64 tag, u64 add, u64 most,
		      bool debt)
{
	u64 ahead = later(tag, l->tag) - l->tag;

	if (debt)
		most = max(most, min(l->pace, TAG_SPAN));
	return l->tag + min(ahead + add, max(most, ahead));
}

/* Move a group's and its ancestors' tags. */
static void charge_tags(struct ioband_share *g, u64 tokens, bool debt)
{
	const struct ioband_sched *s = g->sched;

	tokens = min_t(u64, tokens, IOBAND_MAX_TOKENS);
	if (g->below.weights)
		g->own_tag = charge_tag(&g->below, g->own_tag,
					tokens_to_tag(tokens, g->weight),
					burst_tag(s, &g->below) / 2, debt);
	for (; g; g = g->parent) {
		struct ioband_level *l = level_of(g);

		set_tag(g, charge_tag(l, g->tag,
				      tokens_to_tag(tokens, g->weight),
				      burst_tag(s, l) / 2, debt));
	}
}

/**
 * ioband_charge - charge a group for I/O that went while there was room
 * @g: the group
 * @tokens: what the I/O cost in all
 *
 * It is remembered up to half of the burst.
 */
void ioband_charge(struct ioband_share *g, u64 tokens)
{
	/* The returns went by unseen, too. */
	forget_returns(g);
	charge_tags(g, tokens, false);
}

/**
 * ioband_charge_debt - charge a group for an I/O that should have been held
 * @g: the group
 * @r: the I/O
 * @now_ns: time
 *
 * The debt is at most what the groups together move the clock in a second, and
 * a second of each limit's rate.
 */
void ioband_charge_debt(struct ioband_share *g, const struct ioband_req *r,
			u64 now_ns)
{
	struct ioband_sched *s = g->sched;
	enum ioband_limit i;

	note_group(s, g, now_ns);
	charge_tags(g, s->policy->cost(r->sectors, r->ios), true);
	for (; g; g = g->parent) {
		for (i = 0; g->limited && i < IOBAND_NR_LIMITS; i++) {
			if (!(g->limited & BIT(i)))
				continue;
			ioband_bucket_owe(&g->bucket[i], limit_tokens(i, r),
					  limit_least(g, i), g->burst_ns,
					  now_ns);
		}
	}
}

/**
 * ioband_drain - take a held I/O out of turn, without charge
 * @g: the group
 *
 * For suspend and removal.
 *
 * Return: an I/O in order of arrival, the caller's again, NULL if none is held.
 */
struct ioband_req *ioband_drain(struct ioband_share *g)
{
	struct ioband_req *r, *w;

	r = list_first_entry_or_null(&g->queue[IOBAND_READ].fifo,
				     struct ioband_req, fifo);
	w = list_first_entry_or_null(&g->queue[IOBAND_WRITE].fifo,
				     struct ioband_req, fifo);
	if (!r || (w && arrived_before(w, r)))
		r = w;
	if (!r)
		return NULL;
	req_unlink(g, r);
	share_leave(g, r->dir);
	/* Nobody is kept waiting any more. */
	if (!g->sched->held)
		g->sched->idle_ns = 0;
	return r;
}

/**
 * ioband_watches - must all I/O be told to the core?
 * @s: the domain's state
 * @in_flight: I/Os in flight now
 *
 * Return: false if what comes or completes from now on may pass by without
 * asking: there is room, nothing waits for it, and the depth isn't looked for.
 * The search for the depth then knows that it has missed some.
 */
bool ioband_watches(struct ioband_sched *s, u32 in_flight)
{
	if (in_flight >= s->depth || ioband_wants_room(s))
		return true;
	if (s->find) {
		if (ioband_depth_watches(&s->finder))
			return true;
		ioband_depth_idle(&s->finder, true);
	}
	return false;
}

/**
 * ioband_pausing - find the limit that a group waits for
 * @g: the group
 * @limit: set to the limit
 *
 * Return: the group, @g or an ancestor, whose limit it is; NULL if none.
 */
const struct ioband_share *ioband_pausing(const struct ioband_share *g,
					  enum ioband_limit *limit)
{
	const struct ioband_share *self = g;
	int dir;

	for (; g; g = g->parent) {
		for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
			if (!is_paused(g, dir) ||
			    (!has_own(self, dir) && !has_below(self, dir)))
				continue;
			*limit = g->pause[dir].limit;
			return g;
		}
	}
	return NULL;
}

/**
 * ioband_lead - how far a group is ahead of its siblings
 * @g: the group
 *
 * Return: tokens that it was sent beyond its share; 0 if it is behind.
 */
u64 ioband_lead(const struct ioband_share *g)
{
	u64 clock = level_of(g)->tag;

	if (!before(clock, g->tag))
		return 0;
	return mul_u64_u64_div_u64(g->tag - clock, g->weight,
				   1ULL << IOBAND_TAG_SHIFT);
}

/**
 * ioband_level_weights - the weights that a group's weight is compared to
 * @g: the group
 *
 * Return: sum of the weights of the group and its active siblings.
 */
u64 ioband_level_weights(const struct ioband_share *g)
{
	return level_of(g)->weights;
}

/**
 * ioband_is_next - is it a group's turn?
 * @g: the group
 * @now_ns: time
 *
 * Limits that its I/O may run into yet aren't looked at.
 *
 * Return: true if the next I/O to go is its own.
 */
bool ioband_is_next(const struct ioband_share *g, u64 now_ns)
{
	struct ioband_share *owner;
	bool due, batch;

	due_enter(g->sched, now_ns);
	return next_in_order(g->sched, now_ns, &owner, &due, &batch) &&
	       owner == g;
}
