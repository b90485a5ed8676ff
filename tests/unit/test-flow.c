// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bytes a second of groups that share a simulated disk: minimums, maximums,
 * limits and trees, in runs of ten seconds.
 */
#include "harness.h"

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "sim.h"

#define MIB	(1024.0 * 1024)
#define MOST	5
#define NR_NONE	U32_MAX

struct flow_group {
	char parent;		/* letter, or 0 */
	u32 weight;		/* 0 for 100 */
	double min, max;	/* MiB a second */
	double rbps, wbps;
	u64 riops, wiops;
	enum sim_kind kind;
	u32 n;			/* readers or depth of the queue, 0 for none */
	u32 kib;		/* size of I/O, 0 for 4 */
	u32 write_pct;
	u64 start_ns;
	double expect;		/* MiB a second */
};

/*
 * The disk makes @mib a second at @servers at once, so nothing but bytes counts.
 * Counting begins at @from_ns.
 */
static const struct flow_row {
	const char *name;
	const char *policy;
	double mib;
	u32 servers;
	u64 from_ns;
	struct flow_group g[MOST];
} flow_rows[] = {
	/*
	 * Minimums first, and all that a group is sent counts for its turn by
	 * tags, too: A's third is less than its minimum, so B and C share what
	 * is left.
	 */
	{ "range: a minimum", "range-bw", 10, 1, 0, {
		{ .min = 6, .kind = SIM_QUEUE, .n = 8, .expect = 6 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 2 } } },
	{ "range: a minimum on a deep disk", "range-bw", 10, 4, 0, {
		{ .min = 6, .kind = SIM_QUEUE, .n = 8, .expect = 6 },
		{ .kind = SIM_QUEUE, .n = 32, .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 32, .expect = 2 } } },
	{ "range: minimums that are less than a share", "range-bw", 10, 1, 0, {
		{ .min = 3, .kind = SIM_QUEUE, .n = 8, .expect = 5 },
		{ .min = 2, .kind = SIM_QUEUE, .n = 8, .expect = 5 } } },
	{ "range: minimums that use all", "range-bw", 10, 1, 0, {
		{ .min = 6, .kind = SIM_QUEUE, .n = 8, .expect = 6 },
		{ .min = 3, .kind = SIM_QUEUE, .n = 8, .expect = 3 },
		{ .min = 1, .kind = SIM_QUEUE, .n = 8, .expect = 1 } } },
	{ "range: large I/O of one, small of the other", "range-bw", 10, 1, 0, {
		{ .min = 7, .kind = SIM_QUEUE, .n = 8, .kib = 4, .expect = 7 },
		{ .kind = SIM_QUEUE, .n = 8, .kib = 256, .expect = 3 } } },
	{ "range: small I/O of one, large of the other", "range-bw", 10, 1, 0, {
		{ .min = 7, .kind = SIM_QUEUE, .n = 8, .kib = 256,
		  .expect = 7 },
		{ .kind = SIM_QUEUE, .n = 8, .kib = 4, .expect = 3 } } },
	{ "range: reads have the minimum, writes don't", "range-bw", 10, 1, 0, {
		{ .min = 8, .kind = SIM_QUEUE, .n = 8, .expect = 8 },
		{ .kind = SIM_QUEUE, .n = 64, .write_pct = 100,
		  .expect = 2 } } },
	/* A reader is there each second time at least, which is enough. */
	{ "range: minimum of a synchronous reader", "range-bw", 10, 1, 0, {
		{ .min = 4, .kind = SIM_READERS, .n = 1, .expect = 4 },
		{ .kind = SIM_QUEUE, .n = 64, .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 64, .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 64, .expect = 2 } } },
	{ "range: idle minimums are everybody's", "range-bw", 10, 1, 0, {
		{ .min = 8 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 5 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 5 } } },

	{ "range: a maximum", "range-bw", 10, 1, 0, {
		{ .max = 2, .kind = SIM_QUEUE, .n = 8, .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 8 } } },
	{ "range: a maximum alone", "range-bw", 10, 1, 0, {
		{ .max = 2, .kind = SIM_QUEUE, .n = 8, .expect = 2 } } },
	{ "range: a maximum of reads and writes", "range-bw", 10, 4, 0, {
		{ .max = 2, .kind = SIM_QUEUE, .n = 8, .write_pct = 50,
		  .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 8 } } },
	{ "range: what is left is for all alike", "range-bw", 10, 1, 0, {
		{ .max = 1, .kind = SIM_QUEUE, .n = 8, .expect = 1 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 4.5 },
		{ .kind = SIM_QUEUE, .n = 16, .expect = 4.5 } } },
	{ "range: minimum and maximum the same", "range-bw", 10, 1, 0, {
		{ .min = 7, .max = 7, .kind = SIM_QUEUE, .n = 8, .expect = 7 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 1.5 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 1.5 } } },
	{ "range: a maximum that isn't reached", "range-bw", 10, 1, 0, {
		{ .max = 9, .kind = SIM_QUEUE, .n = 8, .expect = 5 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 5 } } },

	/* 12 + 6 don't fit into 10: 12 : 6. */
	{ "range: too many minimums", "range-bw", 10, 1, 0, {
		{ .min = 12, .kind = SIM_QUEUE, .n = 8, .expect = 20 / 3.0 },
		{ .min = 6, .kind = SIM_QUEUE, .n = 8, .expect = 10 / 3.0 } } },
	{ "range: too many minimums, later on", "range-bw", 10, 1, 20 * SEC, {
		{ .min = 12, .kind = SIM_QUEUE, .n = 8, .expect = 20 / 3.0 },
		{ .min = 6, .kind = SIM_QUEUE, .n = 8, .expect = 10 / 3.0 } } },
	{ "range: far too many minimums", "range-bw", 10, 1, 5 * SEC, {
		{ .min = 300, .kind = SIM_QUEUE, .n = 8, .expect = 6 },
		{ .min = 100, .kind = SIM_QUEUE, .n = 8, .expect = 2 },
		{ .min = 100, .kind = SIM_QUEUE, .n = 8, .expect = 2 } } },
	{ "range: too many equal minimums", "range-bw", 10, 1, 0, {
		{ .min = 5, .kind = SIM_QUEUE, .n = 8, .expect = 10 / 3.0 },
		{ .min = 5, .kind = SIM_QUEUE, .n = 8, .expect = 10 / 3.0 },
		{ .min = 5, .kind = SIM_QUEUE, .n = 8,
		  .expect = 10 / 3.0 } } },

	/* Who comes late is as good as who was there. */
	{ "range: a newcomer beside a minimum", "range-bw", 10, 1, 21 * SEC, {
		{ .min = 8, .kind = SIM_QUEUE, .n = 8, .expect = 8 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 1 },
		{ .kind = SIM_QUEUE, .n = 8, .start_ns = 20 * SEC,
		  .expect = 1 } } },
	{ "range: a newcomer beside a maximum", "range-bw", 10, 1, 21 * SEC, {
		{ .max = 2, .kind = SIM_QUEUE, .n = 8, .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 4 },
		{ .kind = SIM_QUEUE, .n = 8, .start_ns = 20 * SEC,
		  .expect = 4 } } },

	/* A has 6 of 100, of which B has two thirds. D isn't slowed. */
	{ "tree: 2:1 below a limit", "weight-iosize", 100, 4, 0, {
		{ .rbps = 6 },
		{ .parent = 'A', .weight = 200, .kind = SIM_QUEUE, .n = 8,
		  .expect = 4 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 8, .kib = 64, .expect = 94 } } },
	/* 600 MB of 4 KiB readers are a quarter of what B gets at 1/4. */
	{ "tree: 2:1 of readers below a limit", "weight-iosize", 100, 4, 0, {
		{ .rbps = 6 },
		{ .parent = 'A', .weight = 200, .kind = SIM_READERS, .n = 8,
		  .expect = 4 },
		{ .parent = 'A', .kind = SIM_READERS, .n = 8, .expect = 2 } } },
	{ "tree: sizes differ", "weight-iosize", 10, 1, 0, {
		{ 0 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .kib = 64,
		  .expect = 2.5 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .expect = 2.5 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 5 } } },
	{ "tree: readers beside queues", "weight", 10, 1, 0, {
		{ .weight = 200 },
		{ .parent = 'A', .kind = SIM_READERS, .n = 1,
		  .expect = 10 / 3.0 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 64,
		  .expect = 10 / 3.0 },
		{ .kind = SIM_QUEUE, .n = 64, .expect = 10 / 3.0 } } },
	/* B may have 1 of A's 4: C has the other 3. */
	{ "tree: a limit in a limit", "weight-iosize", 20, 2, 0, {
		{ .rbps = 4 },
		{ .parent = 'A', .rbps = 1, .kind = SIM_QUEUE, .n = 8,
		  .expect = 1 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .expect = 3 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 16 } } },
	/* 256 requests of 4 KiB are 1 MiB. */
	{ "tree: a limit of requests above", "weight", 20, 2, 0, {
		{ .riops = 768 },
		{ .parent = 'A', .weight = 200, .kind = SIM_QUEUE, .n = 8,
		  .expect = 2 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .expect = 1 } } },
	{ "tree: writes are limited, reads aren't", "weight-iosize", 20, 2, 0, {
		{ .wbps = 2 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .write_pct = 100,
		  .expect = 2 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .expect = 18 } } },
	/* A minimum is of all that is below. */
	{ "tree: a minimum of a parent", "range-bw", 10, 1, 0, {
		{ .min = 6 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .expect = 3 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .expect = 3 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 2 } } },
	{ "tree: a minimum of a child", "range-bw", 12, 1, 0, {
		{ 0 },
		{ .parent = 'A', .min = 4, .kind = SIM_QUEUE, .n = 8,
		  .expect = 4 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .expect = 2 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 6 } } },
	{ "tree: a maximum of a parent", "range-bw", 10, 1, 0, {
		{ .max = 3 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .expect = 1.5 },
		{ .parent = 'A', .kind = SIM_QUEUE, .n = 8, .write_pct = 100,
		  .expect = 1.5 },
		{ .kind = SIM_QUEUE, .n = 8, .expect = 7 } } },
};

static void test_flow(void **state)
{
	const struct flow_row *row = *state;
	const u64 from = row->from_ns ?: SEC, ns = 10 * SEC;
	struct sim_config c = {
		.seed		= 1,
		.policy		= ioband_policy_find(row->policy),
		.depth		= row->servers,
		.carryover	= IOBAND_CARRYOVER_DEFAULT,
		.dispatch_ns	= USEC,
		.disk = {
			.servers	= row->servers,
			.bytes_per_sec	= row->mib * MIB / row->servers,
			/* Or all of it goes in lockstep. */
			.jitter_pct	= 5,
		},
	};
	double got[MOST], off;
	struct sim *s;
	u32 i, failed = NR_NONE;

	for (i = 0; i < MOST; i++) {
		const struct flow_group *g = &row->g[i];
		struct sim_load *l = &c.loads[c.nr_loads];

		c.weights[i] = g->weight ?: 100;
		c.parents[i] = g->parent ? g->parent - 'A' + 1 : 0;
		c.min_bps[i] = g->min * MIB;
		c.max_bps[i] = g->max * MIB;
		c.rates[i][IOBAND_RBPS] = g->rbps * MIB;
		c.rates[i][IOBAND_WBPS] = g->wbps * MIB;
		c.rates[i][IOBAND_RIOPS] = g->riops;
		c.rates[i][IOBAND_WIOPS] = g->wiops;
		if (!g->n)
			continue;
		c.nr_loads++;
		l->group = i;
		l->kind = g->kind;
		l->n = g->n;
		l->min_sectors = (g->kib ?: 4) * 2;
		l->write_pct = g->write_pct;
		l->think_ns = 10 * USEC;
		l->think_jitter_pct = 50;
		l->prio = IOBAND_PRIO_BE;
		l->start_ns = g->start_ns;
	}
	c.nr_groups = MOST;
	s = sim_new(&c);
	sim_run(s, from);
	sim_reset_counts(s);
	sim_run(s, from + ns);
	for (i = 0; i < MOST; i++) {
		const struct flow_group *g = &row->g[i];

		got[i] = (s->groups[i].bytes[0] + s->groups[i].bytes[1]) / MIB *
			 SEC / ns;
		/* 2 %, and what is in the disk and in the rhythm of it. */
		off = got[i] - g->expect;
		if (off > g->expect * 0.02 + 0.03 ||
		    off < -g->expect * 0.02 - 0.03)
			failed = i;
		/* Of a maximum or limit 1 % at most. */
		if (g->max && got[i] > g->max * 1.01)
			failed = i;
	}
	sim_free(s);
	print_message("# %-46s %6.2f %6.2f %6.2f %6.2f %6.2f MiB/s\n",
		      row->name, got[0], got[1], got[2], got[3], got[4]);
	if (failed != NR_NONE)
		failf("%c has %.3f MiB/s, not %.3f", 'A' + failed, got[failed],
		      row->g[failed].expect);
}

int main(void)
{
	static struct harness h;

	add_table(&h, test_flow, flow_rows);
	return run_harness(&h, "flow");
}
