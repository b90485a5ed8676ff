/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Simulated disks, loads and the driver around the scheduling core, in
 * discrete time.
 *
 * Fill in struct sim_config, call sim_new(), sim_run() to some time, look at
 * the counters, and sim_free(). A run depends on nothing but its
 * configuration: the same seed repeats it exactly.
 */
#ifndef DM_IOBAND_SIM_H
#define DM_IOBAND_SIM_H

#include <linux/limits.h>
#include <linux/time64.h>

#include "disk.h"
#include "dm-ioband-policy.h"

#define SIM_MAX_GROUPS	16
#define SIM_MAX_LOADS	32
#define SIM_MAX_CHANGES	32
/* Bytes of the largest I/O that limits reckon with. */
#define SIM_LARGEST	(1U << 20)
/* Most I/Os in flight unless the configuration says otherwise. */
#define SIM_LIMIT_DEFAULT 1024U

/**
 * enum sim_kind - how a load makes I/O
 * @SIM_READERS: each of @n waits for its I/O, thinks, sends the next
 * @SIM_QUEUE: keeps @n I/Os outstanding, never waits
 * @SIM_OPEN: an I/O every @think_ns, up to @n outstanding, never waits
 */
enum sim_kind {
	SIM_READERS,
	SIM_QUEUE,
	SIM_OPEN,
};

/**
 * struct sim_load - who makes I/O
 * @group: index of the group
 * @kind: how
 * @n: readers, or depth of the queue
 * @write_pct: part that are writes
 * @think_ns: time from a completion to the next I/O
 * @think_jitter_pct: varies by this much
 * @pause_pct: how often a reader pauses instead
 * @pause_ns: for so long
 * @min_sectors: sizes are uniform between these two, 0 for 8
 * @max_sectors: see @min_sectors
 * @max_ios: an I/O makes up to so many requests at the disk, 0 for 1
 * @prio: I/O priority
 * @prios: if not 0, priorities are uniform in [@prio, @prio + @prios)
 * @urgent_pct: part that may not be held
 * @start_ns: sends nothing before
 * @stop_ns: nor from here on, 0 for never
 * @on_ns: sends for so long, ...
 * @off_ns: ... then pauses for so long, and again; 0 for never
 */
struct sim_load {
	u32 group;
	enum sim_kind kind;
	u32 n;
	u32 write_pct;
	u64 think_ns;
	u32 think_jitter_pct;
	u32 pause_pct;
	u64 pause_ns;
	u32 min_sectors;
	u32 max_sectors;
	u32 max_ios;
	u8 prio;
	u8 prios;
	u32 urgent_pct;
	u64 start_ns;
	u64 stop_ns;
	u64 on_ns;
	u64 off_ns;
};

enum sim_change_kind {
	SIM_WEIGHT,
	SIM_LIMITS,
	SIM_PARENT,
	SIM_RANGE,
	SIM_POLICY,
	SIM_DEPTH,	/* 0 for one that is found */
	SIM_LIMIT,	/* most I/Os in flight */
	SIM_BURST,	/* token_base */
	SIM_SUSPEND,	/* what the group holds goes straight, and what comes */
	SIM_RESUME,
};

/**
 * struct sim_change - what an administrator does
 * @at_ns: when
 * @kind: what; the fields below as far as it needs them
 * @group: to whom
 * @number: weight, depth, limit, token_base, or parent as in struct sim_config
 * @rates: limits
 * @burst_ns: size of their buckets
 * @min_bps: of a range
 * @max_bps: of a range
 * @policy: the new one
 */
struct sim_change {
	u64 at_ns;
	enum sim_change_kind kind;
	u32 group;
	u32 number;
	u64 rates[IOBAND_MAX_BW];
	u64 burst_ns;
	u64 min_bps, max_bps;
	const struct ioband_policy *policy;
};

struct sim;

struct sim_io {
	struct ioband_req req;
	struct disk_io disk;
	u32 load;
	u32 group;
	u32 tokens;
	bool urgent;
	u64 submit_ns;
	/* For those who watch. */
	u64 mark[4];
};

/**
 * struct sim_watch - called at what the core is told and answers
 * @fold: after ioband_charge() for I/O that went straight
 * @before_hold: before ioband_hold()
 * @hold: after it
 * @before_take: before ioband_take()
 * @take: after it; @tag is the group's tag before it
 * @straight: after I/O went straight
 * @debt: after ioband_charge_debt()
 * @done: after ioband_done()
 * @before_change: before a change
 * @change: after it
 * @reweigh: after ioband_share_set_claim()
 * @settled: when all is sent that may go; @next and @until_ns as peek said:
 *	@next, if there is one, is above the most that may be in flight
 * @step: after each event
 */
struct sim_watch {
	void (*fold)(struct sim *s, u32 group, u64 tokens, u64 tag);
	void (*before_hold)(struct sim *s, struct sim_io *io);
	void (*hold)(struct sim *s, struct sim_io *io);
	void (*before_take)(struct sim *s, struct sim_io *io);
	void (*take)(struct sim *s, struct sim_io *io, u64 tag);
	void (*straight)(struct sim *s, struct sim_io *io);
	void (*debt)(struct sim *s, struct sim_io *io);
	void (*done)(struct sim *s, struct sim_io *io);
	void (*before_change)(struct sim *s, const struct sim_change *c);
	void (*change)(struct sim *s, const struct sim_change *c);
	void (*reweigh)(struct sim *s, u32 group, u32 old_weight);
	void (*settled)(struct sim *s, const struct ioband_req *next,
			u64 until_ns);
	void (*step)(struct sim *s);
};

/**
 * struct sim_config - all that a run depends on
 * @policy: NULL for the first
 * @no_control: everything goes straight to the disk
 * @depth: I/Os in flight at which holding starts, 0 to have it found
 * @limit: most I/Os in flight, 0 for SIM_LIMIT_DEFAULT
 * @token_base: see struct ioband_sched
 * @carryover: see struct ioband_sched
 * @dispatch_ns: from a completion or the timer to the worker's run
 * @send_ns: from when a held I/O is taken until the disk has it
 * @first_tag: the clock begins here
 * @start_ns: time begins here, 0 for a millisecond
 * @parents: 1 + index of the group that each is below, 0 for the top
 * @min_bps: minimum of each
 * @max_bps: maximum of each
 * @rates: limits of each
 * @burst_ns: size of their buckets, 0 for the default
 */
struct sim_config {
	u64 seed;
	const struct ioband_policy *policy;
	bool no_control;
	u32 depth;
	u32 limit;
	u32 token_base;
	u32 carryover;
	u64 dispatch_ns;
	u64 send_ns;
	u64 first_tag;
	struct sim_disk disk;
	u32 nr_groups;
	u64 start_ns;
	u32 weights[SIM_MAX_GROUPS];
	u32 parents[SIM_MAX_GROUPS];
	u64 min_bps[SIM_MAX_GROUPS];
	u64 max_bps[SIM_MAX_GROUPS];
	u64 rates[SIM_MAX_GROUPS][IOBAND_MAX_BW];
	u64 burst_ns[SIM_MAX_GROUPS];
	u32 nr_loads;
	struct sim_load loads[SIM_MAX_LOADS];
	u32 nr_changes;
	struct sim_change changes[SIM_MAX_CHANGES];
	const struct sim_watch *watch;
	void *data;
};

/**
 * struct sim_group - a group and what was counted of it
 * @share: its scheduling state
 * @straight: tokens that went straight and haven't been charged yet
 * @folded: contended period in which that was last done
 * @submitted: tokens of all I/O that arrived
 * @taken: tokens of I/O that was held and sent
 * @passed: tokens of I/O that went straight
 * @done: tokens of I/O that completed
 * @ios: I/Os that completed
 * @bytes: of them, by direction
 * @wait_ns: longest time that one was held
 */
struct sim_group {
	struct ioband_share share;
	u64 straight;
	u64 folded;
	u64 submitted;
	u64 taken;
	u64 passed;
	u64 done;
	u64 ios;
	u64 bytes[IOBAND_NR_DIRS];
	u64 wait_ns;
};

/**
 * struct sim - a run
 * @depth: in force, as the driver knows it
 * @limit: most I/Os in flight
 * @in_flight: requests of I/Os at the disk, as the driver counts
 * @outstanding: I/Os in all
 * @period: contended periods so far
 * @contended: the present one hasn't ended: the core is told of all I/O
 * @busy_ns: time in the disk of I/O that had been held
 * @lost_ns: slots kept free by the core, times how long
 * @idle_slots: slots kept free at present
 * @max_service_ns: longest time that an I/O was in the disk
 */
struct sim {
	struct sim_config cfg;
	struct sim_rand rand;
	struct ioband_sched sched;
	struct sim_group groups[SIM_MAX_GROUPS];
	u64 now_ns;
	u32 depth;
	u32 limit;
	u32 in_flight;
	u32 outstanding;
	u64 period;
	bool contended;
	u64 busy_ns;
	u64 lost_ns;
	u64 idle_since_ns;
	u32 idle_slots;
	u64 max_service_ns;
	bool stopping;
	/* The rest is sim.c's. */
	struct sim_event *events;
	u32 nr_events;
	u32 max_events;
	u64 event_seq;
	struct disk disk;
	bool worker;
	u64 timer_ns;
	u32 load_out[SIM_MAX_LOADS];
};

struct sim *sim_new(const struct sim_config *cfg);
void sim_run(struct sim *s, u64 until_ns);
/* No more arrivals: run until all I/O has completed, or @until_ns. */
void sim_finish(struct sim *s, u64 until_ns);
void sim_reset_counts(struct sim *s);
void sim_free(struct sim *s);

u32 sim_share_index(const struct sim *s, const struct ioband_share *g);

#endif /* DM_IOBAND_SIM_H */
