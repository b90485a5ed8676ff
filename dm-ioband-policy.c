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
 *	A's tag  0  1  1  2  3  3  4
 *	B's tag  0  0  2  2  2  4  4
 *	sent     A  B  A  A  B  A  ...		two of A to one of B
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
 *    starts at 4996: B waits for four I/Os of A at most, not for 5000.
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
 *    Disk of depth 4 that just completed three I/Os of A (tag 7; all its I/Os)
 *    and one of B (tag 9; holds more). Of A's next three the tags would be 7,
 *    8 and 9: two precede B's. Two slots are kept, B gets the others, and when
 *    A comes back microseconds later all four are busy, in the right order.
 *
 * 5. Inside a group reads and writes wait apart and take turns by tokens used;
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
/* Both fade by half when this much time in use has been added up. */
#define BUSY_FADE_NS		(4 * NSEC_PER_SEC)
/* Longest time that an I/O is passed over for its priority. */
#define AGE_NS			NSEC_PER_SEC
/* Span over which the pace of the clock is measured. */
#define PACE_NS			(100 * NSEC_PER_MSEC)

/*
 * Tags wrap around. No lead, lag, burst or credit may be longer than this, so
 * that differences keep their sign; ioband_sched.shares is walked each time
 * that the clock has moved by as much.
 */
#define TAG_SPAN		BIT_ULL(60)

#define KEY_PRIO_SHIFT		56

static u32 weight_cost(u32 sectors, u32 ios)
{
	return ios;
}

static u32 weight_of(const u32 *params)
{
	return params[0];
}

static const struct ioband_policy ioband_policies[] = {
	{
		.name		= "weight",
		.nr_params	= 1,
		.params		= {
			{ "weight", IOBAND_WEIGHT_MIN, IOBAND_WEIGHT_MAX,
			  IOBAND_WEIGHT_DEFAULT },
		},
		.unit		= 1,
		.cost		= weight_cost,
		.weight		= weight_of,
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

/* The burst: how far a group may be ahead of the clock, as a tag. */
static u64 burst_tag(const struct ioband_sched *s)
{
	u64 tokens = s->token_base ?: (u64)s->depth * s->policy->unit;
	u64 weights = max_t(u64, s->weights, 1);

	return min(tokens_to_tag(min_t(u64, tokens, U32_MAX), weights),
		   TAG_SPAN);
}

/* Where a group would start if its next I/O came now. */
static u64 start_tag(const struct ioband_share *g)
{
	const struct ioband_sched *s = g->sched;
	u64 credit;

	if (check_mul_overflow(burst_tag(s), (u64)s->carryover, &credit))
		credit = TAG_SPAN;
	return later(g->tag, s->tag - min(credit, TAG_SPAN));
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
	s->timeline = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&s->returning);
	INIT_LIST_HEAD(&s->shares);
	s->depth = depth;
	s->carryover = IOBAND_CARRYOVER_DEFAULT;
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
	s->depth = depth;
}

/**
 * ioband_share_init - set up the scheduling state of a group
 * @g: the state
 * @s: domain that the group will be scheduled in
 * @weight: its weight, IOBAND_WEIGHT_MIN to IOBAND_WEIGHT_MAX
 *
 * The group takes no part in shares before ioband_share_activate().
 *
 * Context: any; nobody else uses @g yet, and @s isn't written.
 */
void ioband_share_init(struct ioband_share *g, struct ioband_sched *s,
		       u32 weight)
{
	memset(g, 0, sizeof(*g));
	g->sched = s;
	RB_CLEAR_NODE(&g->node);
	INIT_LIST_HEAD(&g->all);
	INIT_LIST_HEAD(&g->returning);
	INIT_LIST_HEAD(&g->fifo);
	g->queue[IOBAND_READ].reqs = RB_ROOT_CACHED;
	g->queue[IOBAND_WRITE].reqs = RB_ROOT_CACHED;
	g->weight = weight;
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
	g->tag = g->sched->tag;
	g->sched->weights += g->weight;
	list_add_tail(&g->all, &g->sched->shares);
}

static void forget_returns(struct ioband_share *g)
{
	g->done_nr = 0;
	list_del_init(&g->returning);
}

/**
 * ioband_share_deactivate - end a group's part in shares
 * @g: the group, which holds nothing (ioband_drain())
 */
void ioband_share_deactivate(struct ioband_share *g)
{
	if (!g->active)
		return;
	g->active = false;
	g->sched->weights -= g->weight;
	list_del_init(&g->all);
	if (g->sched->batch == g)
		g->sched->batch = NULL;
	forget_returns(g);
}

static bool share_less(struct rb_node *a, const struct rb_node *b)
{
	return before(rb_entry(a, struct ioband_share, node)->tag,
		      rb_entry(b, struct ioband_share, node)->tag);
}

static void timeline_add(struct ioband_share *g)
{
	rb_add_cached(&g->node, &g->sched->timeline, share_less);
}

static void timeline_del(struct ioband_share *g)
{
	rb_erase_cached(&g->node, &g->sched->timeline);
	RB_CLEAR_NODE(&g->node);
}

/**
 * ioband_share_set_weight - change a group's weight
 * @g: the group
 * @weight: the new weight
 *
 * The group keeps its lead or lag in tokens, so that what it used before the
 * change is neither forgotten nor weighed anew; the others keep theirs.
 */
void ioband_share_set_weight(struct ioband_share *g, u32 weight)
{
	struct ioband_sched *s = g->sched;
	bool queued = !RB_EMPTY_NODE(&g->node);

	if (queued)
		timeline_del(g);
	if (before(s->tag, g->tag)) {
		u64 lead = g->tag - s->tag;

		if (lead / weight >= TAG_SPAN / g->weight)
			lead = TAG_SPAN;
		else
			lead = mul_u64_u64_div_u64(lead, g->weight, weight);
		g->tag = s->tag + lead;
	}
	if (g->active)
		s->weights += (u64)weight - g->weight;
	g->weight = weight;
	if (queued)
		timeline_add(g);
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

	if (r->sync)
		note_arrival(g, now_ns);
	/* An idle direction doesn't hoard turns against the other one. */
	if (!queue_first(q) && queue_first(other))
		q->used = later(q->used, other->used);
	r->held_ns = now_ns;
	r->key = (u64)r->prio << KEY_PRIO_SHIFT | g->sched->seq++;
	rb_add_cached(&r->node, &q->reqs, req_less);
	list_add_tail(&r->fifo, &g->fifo);
	g->sched->held++;
	if (!g->held++) {
		g->tag = start_tag(g);
		timeline_add(g);
	}
}

/* The group's next I/O; it holds one at least. */
static struct ioband_req *share_first(const struct ioband_share *g, u64 now_ns)
{
	const struct ioband_queue *rq = &g->queue[IOBAND_READ];
	const struct ioband_queue *wq = &g->queue[IOBAND_WRITE];
	struct ioband_req *oldest, *r, *w;

	oldest = list_first_entry(&g->fifo, struct ioband_req, fifo);
	if ((s64)(now_ns - max(oldest->held_ns, g->aged_ns)) >= (s64)AGE_NS)
		return oldest;
	r = queue_first(rq);
	w = queue_first(wq);
	if (!r || !w)
		return r ?: w;
	if (r->prio != w->prio)
		return r->prio < w->prio ? r : w;
	return before(wq->used, rq->used) ? w : r;
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

/*
 * How many awaited I/Os would precede an I/O that starts at @tag, up to @max.
 * Lowers @until_ns to the time when the first of them is given up.
 */
static u32 count_awaited(struct ioband_sched *s, u64 tag, u32 max, u64 now_ns,
			 u64 *until_ns)
{
	struct ioband_share *g, *next;
	u32 n = 0;

	list_for_each_entry_safe(g, next, &s->returning, returning) {
		u64 start, step, give_up;
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
		start = start_tag(g);
		step = tokens_to_tag(g->tokens_last, g->weight);
		if (!before(start, tag))
			continue;
		*until_ns = *until_ns ? min(*until_ns, give_up) : give_up;
		for (; i < g->done_nr && before(start, tag); i++) {
			start += step;
			if (++n >= max)
				return n;
		}
	}
	return n;
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
	struct rb_node *first = rb_first_cached(&s->timeline);
	struct ioband_share *g;
	u32 slots, awaited;

	*until_ns = 0;
	if (!first || in_flight >= s->depth) {
		stop_idling(s, now_ns);
		return NULL;
	}
	g = rb_entry(first, struct ioband_share, node);
	if (s->batch && s->batch->held &&
	    !before(g->tag + burst_tag(s), s->batch->tag))
		g = s->batch;
	if (!list_empty(&s->returning) && may_await(s)) {
		slots = s->depth - in_flight;
		awaited = count_awaited(s, g->tag, slots, now_ns, until_ns);
		if (awaited >= slots) {
			if (!s->idle_ns) {
				s->idle_ns = now_ns;
				s->idle_slots = awaited;
				s->idles++;
			}
			return NULL;
		}
		*until_ns = 0;
	}
	stop_idling(s, now_ns);
	return share_first(g, now_ns);
}

static void req_unlink(struct ioband_share *g, struct ioband_req *r)
{
	rb_erase_cached(&r->node, &g->queue[r->dir].reqs);
	list_del(&r->fifo);
	g->sched->held--;
	g->held--;
}

static void clock_advance(struct ioband_sched *s, u64 tag, u64 now_ns)
{
	struct ioband_share *g;
	u64 round;

	s->tag = later(s->tag, tag);
	if (s->tag - s->span_tag >= TAG_SPAN) {
		list_for_each_entry(g, &s->shares, all)
			if (!g->held)
				g->tag = later(g->tag, s->tag - TAG_SPAN);
		s->span_tag = s->tag;
	}
	round = burst_tag(s);
	if (round && s->tag - s->round_tag >= round) {
		u64 n = div64_u64(s->tag - s->round_tag, round);

		s->rounds += n;
		s->round_tag += n * round;
	}
	if (now_ns - s->pace_ns >= PACE_NS) {
		s->pace = mul_u64_u64_div_u64(min(s->tag - s->pace_tag, TAG_SPAN),
					      NSEC_PER_SEC,
					      now_ns - s->pace_ns);
		s->pace_ns = now_ns;
		s->pace_tag = s->tag;
	}
}

/**
 * ioband_take - take a held I/O to be sent
 * @g: its group
 * @r: what ioband_peek() returned; the caller's again
 * @now_ns: time
 *
 * Charges the group.
 */
void ioband_take(struct ioband_share *g, struct ioband_req *r, u64 now_ns)
{
	struct ioband_sched *s = g->sched;
	u64 tag = g->tag;

	if (r == list_first_entry(&g->fifo, struct ioband_req, fifo))
		g->aged_ns = now_ns;
	timeline_del(g);
	req_unlink(g, r);
	g->queue[r->dir].used += r->tokens;
	g->tokens_last = r->tokens;
	g->tag += tokens_to_tag(r->tokens, g->weight);
	if (g->held)
		timeline_add(g);
	s->batch = s->token_base ? g : NULL;
	r->sent_ns = now_ns;
	clock_advance(s, tag, now_ns);
}

/**
 * ioband_done - tell of the completion of an I/O
 * @g: its group
 * @r: the I/O, whether it was ever held or not
 * @now_ns: time
 *
 * The caller asks ioband_peek() afterwards: there may be room now.
 */
void ioband_done(struct ioband_share *g, struct ioband_req *r, u64 now_ns)
{
	struct ioband_sched *s = g->sched;

	if (r->sent_ns) {
		u64 service = now_ns - r->sent_ns;

		mean_add(&s->service_ns, service);
		s->busy_ns += service;
		if (s->busy_ns > BUSY_FADE_NS) {
			s->busy_ns /= 2;
			s->lost_ns /= 2;
		}
	}
	if (r->sync && g->active)
		note_completion(g, now_ns);
}

/**
 * ioband_charge - charge a group for I/O that went without being held
 * @g: the group
 * @tokens: what the I/O cost in all
 * @debt: the I/O went though it should have been held
 *
 * What went while there was room is remembered up to the burst, debt up to
 * what the groups together move the clock in a second.
 */
void ioband_charge(struct ioband_share *g, u64 tokens, bool debt)
{
	struct ioband_sched *s = g->sched;
	u64 tag = later(g->tag, s->tag);
	u64 most = burst_tag(s);
	u64 add;

	if (debt)
		most = max(most, min(s->pace, TAG_SPAN));
	else
		/* The returns went by unseen, too. */
		forget_returns(g);
	most = max(most, tag - s->tag);
	add = tokens_to_tag(min_t(u64, tokens, IOBAND_MAX_TOKENS), g->weight);
	tag = s->tag + min(tag - s->tag + add, most);
	if (!RB_EMPTY_NODE(&g->node)) {
		timeline_del(g);
		g->tag = tag;
		timeline_add(g);
	} else {
		g->tag = tag;
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
	struct ioband_req *r;

	r = list_first_entry_or_null(&g->fifo, struct ioband_req, fifo);
	if (!r)
		return NULL;
	req_unlink(g, r);
	if (!g->held)
		timeline_del(g);
	return r;
}
