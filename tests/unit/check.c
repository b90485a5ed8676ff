// SPDX-License-Identifier: GPL-2.0-only
#include <stdarg.h>
#include <stdio.h>

#include <linux/kernel.h>

#include "check.h"

/* No lead or lag is ever longer: half of where differences change their sign. */
#define LONGEST	(1LL << 62)

static char text[256];

__attribute__((format(printf, 1, 2)))
static const char *wrong(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return text;
}

/* Check a condition in a function that returns what is wrong. */
#define must(ok, ...) do {						\
	if (!(ok))							\
		return wrong(__VA_ARGS__);				\
} while (0)

static const struct ioband_level *level(const struct ioband_share *g)
{
	return g->parent ? &g->parent->below : &g->sched->root;
}

static bool queued(const struct ioband_share *g, int dir)
{
	return !RB_EMPTY_NODE(&g->node[dir]);
}

static bool paused(const struct ioband_share *g, int dir)
{
	return !RB_EMPTY_NODE(&g->pause[dir].node);
}

static u32 count_queue(const struct ioband_queue *q)
{
	struct rb_node *n;
	u32 nr = 0;

	for (n = rb_first_cached(&q->reqs); n; n = rb_next(n))
		nr++;
	return nr;
}

static const char *check_level(const struct ioband_sched *s,
			       const struct ioband_level *l,
			       const struct ioband_share *const *groups, u32 nr)
{
	u64 weights = 0;
	u32 i, in, found;
	int dir;

	for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
		const struct rb_root_cached *t = &l->timeline[dir];
		const struct ioband_share *last = NULL;
		struct rb_node *n;

		must(rb_first(&t->rb_root) == rb_first_cached(t),
		     "timeline %d: the first isn't remembered", dir);
		found = 0;
		for (n = rb_first_cached(t); n; n = rb_next(n)) {
			const struct ioband_share *g;

			g = rb_entry(n - dir, struct ioband_share, node[0]);
			must(g->sched == s && level(g) == l,
			     "timeline %d: a group of another level", dir);
			must(!last || (s64)(g->tag - last->tag) >= 0,
			     "timeline %d: %llu after %llu", dir, g->tag,
			     last->tag);
			last = g;
			found++;
		}
		in = 0;
		for (i = 0; i < nr; i++)
			in += level(groups[i]) == l && queued(groups[i], dir);
		must(in == found, "timeline %d: %u groups, %u say so", dir,
		     found, in);
	}
	for (i = 0; i < nr; i++)
		if (level(groups[i]) == l && groups[i]->active)
			weights += groups[i]->weight;
	must(l->weights == weights, "weights are %llu, not %llu", l->weights,
	     weights);
	return NULL;
}

/* Has a group, or any child that isn't behind a pause, I/O in a direction? */
static bool has_io(const struct ioband_share *g, int dir,
		   const struct ioband_share *const *groups, u32 nr)
{
	u32 i;

	if (rb_first_cached(&g->queue[dir].reqs))
		return true;
	for (i = 0; i < nr; i++)
		if (groups[i]->parent == g && queued(groups[i], dir))
			return true;
	return false;
}

static const char *check_share(const struct ioband_share *g, u32 nr_g,
			       const struct ioband_share *const *groups, u32 nr)
{
	s64 lead;
	u32 n;
	int i;

	for (i = 0; i < IOBAND_NR_DIRS; i++) {
		bool io = has_io(g, i, groups, nr);

		must(!(queued(g, i) && paused(g, i)),
		     "group %u, direction %d: in line and paused", nr_g, i);
		must(!paused(g, i) || io,
		     "group %u, direction %d: paused for nothing", nr_g, i);
		must(queued(g, i) == (io && !paused(g, i)),
		     "group %u, direction %d: %sin line, %s I/O, %spaused",
		     nr_g, i, queued(g, i) ? "" : "not ", io ? "has" : "no",
		     paused(g, i) ? "" : "not ");
		must(g->pause[i].share == g, "group %u: pause of another",
		     nr_g);
	}
	must(!RB_EMPTY_NODE(&g->reserved) ==
	     (g->min_bps && (queued(g, IOBAND_READ) || queued(g, IOBAND_WRITE))),
	     "group %u: minimum %llu, %samong those that have one", nr_g,
	     g->min_bps, RB_EMPTY_NODE(&g->reserved) ? "not " : "");

	n = count_queue(&g->queue[0]) + count_queue(&g->queue[1]);
	must(n == g->held, "group %u: queues %u, says %u", nr_g, n, g->held);
	must(list_empty(&g->all) != g->active, "group %u: active in half",
	     nr_g);
	must(g->done_nr <= IOBAND_MAX_RETURNS &&
	     (g->done_nr || list_empty(&g->returning)),
	     "group %u: awaited for %u", nr_g, g->done_nr);

	for (i = 0; i < IOBAND_NR_LIMITS; i++) {
		must(!(g->limited & BIT(i)) == !g->bucket[i].rate,
		     "group %u: limited by %x, rate %llu", nr_g, g->limited,
		     g->bucket[i].rate);
		must(!g->bucket[i].rate || g->bucket[i].rest < g->bucket[i].rate,
		     "group %u: rest %llu of %llu", nr_g, g->bucket[i].rest,
		     g->bucket[i].rate);
	}
	if (!g->active)
		return NULL;
	lead = g->tag - level(g)->tag;
	must(lead >= -LONGEST && lead <= LONGEST, "group %u: lead %lld", nr_g,
	     lead);
	return NULL;
}

static const char *check_sched(const struct ioband_sched *s,
			       const struct ioband_share *const *groups, u32 nr)
{
	u32 i, held = 0, inside = 0, pauses = 0, minimums = 0, active = 0, n;
	struct list_head *e;
	struct rb_node *p;
	u64 last;
	int dir;

	for (i = 0; i < nr; i++) {
		held += groups[i]->held;
		inside += groups[i]->inside;
		active += groups[i]->active;
		for (dir = 0; dir < IOBAND_NR_DIRS; dir++)
			pauses += paused(groups[i], dir);
		minimums += !RB_EMPTY_NODE(&groups[i]->reserved);
	}
	must(s->held == held, "holds %u, says %u", held, s->held);
	must(s->inside == inside, "%u inside, says %u", inside, s->inside);
	for (n = 0, e = s->shares.next; e != &s->shares; e = e->next)
		n++;
	must(n == active, "%u groups, %u active", n, active);

	must(rb_first(&s->paused.rb_root) == rb_first_cached(&s->paused),
	     "the first pause isn't remembered");
	for (n = 0, last = 0, p = rb_first_cached(&s->paused); p;
	     p = rb_next(p), n++) {
		u64 at = rb_entry(p, struct ioband_pause, node)->ready_ns;

		must(at >= last, "pauses: %llu after %llu", at, last);
		last = at;
	}
	must(n == pauses, "%u pauses, %u groups say so", n, pauses);

	must(rb_first(&s->reserved.rb_root) == rb_first_cached(&s->reserved),
	     "the first that is due isn't remembered");
	for (n = 0, last = 0, p = rb_first_cached(&s->reserved); p;
	     p = rb_next(p), n++) {
		u64 at = rb_entry(p, struct ioband_share, reserved)->due_ns;

		must(at >= last, "minimums: %llu after %llu", at, last);
		last = at;
	}
	/* Those that are due may be elsewhere. */
	must(n <= minimums, "%u with a minimum, %u say so", n, minimums);
	must(!s->batch || !s->batch->active || !s->batch->parent,
	     "the burst is of a group that isn't at the top");
	return NULL;
}

const char *check_core(const struct ioband_sched *s,
		       const struct ioband_share *const *groups, u32 nr)
{
	const char *text;
	u32 i;

	text = check_sched(s, groups, nr);
	if (!text)
		text = check_level(s, &s->root, groups, nr);
	for (i = 0; i < nr && !text; i++) {
		text = check_level(s, &groups[i]->below, groups, nr);
		if (!text)
			text = check_share(groups[i], i, groups, nr);
	}
	return text;
}
