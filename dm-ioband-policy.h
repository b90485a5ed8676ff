/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The door of dm-ioband's scheduling core.
 *
 * The core knows neither bios nor locks nor clocks. It is told of an I/O's
 * group, direction and cost and of the time, and answers which held I/O may
 * go, or when to ask again. So it builds in user space as well, where
 * tests/unit runs it against simulated disks.
 *
 * Context of every function here: the caller serialises all calls for one
 * struct ioband_sched (the kernel holds ioband_domain.lock, interrupts off).
 * Nothing sleeps, allocates or fails unless its comment says so.
 *
 * Times are nanoseconds of a monotonic clock, tokens are what the policy
 * says an I/O costs, tags are tokens per weight in units of
 * 1 / 2^IOBAND_TAG_SHIFT and wrap around: compare them by their difference.
 */
#ifndef DM_IOBAND_POLICY_H
#define DM_IOBAND_POLICY_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#define IOBAND_TAG_SHIFT	32
/* 4 GiB in sectors: the largest bio there is costs no more. */
#define IOBAND_MAX_TOKENS	8388608U
#define IOBAND_WEIGHT_MIN	1
#define IOBAND_WEIGHT_MAX	32767
#define IOBAND_WEIGHT_DEFAULT	100
#define IOBAND_CARRYOVER_DEFAULT 1
#define IOBAND_MAX_PARAMS	2
#define IOBAND_BURST_NS		(100ULL * 1000 * 1000)
/* Completions of a group that the core remembers until an I/O follows. */
#define IOBAND_MAX_RETURNS	14

enum ioband_dir {
	IOBAND_READ,
	IOBAND_WRITE,
	IOBAND_NR_DIRS,
};

/* What may keep a group from being served although it is its turn. */
enum ioband_limit {
	IOBAND_RBPS,
	IOBAND_WBPS,
	IOBAND_RIOPS,
	IOBAND_WIOPS,
	IOBAND_MAX_BW,
	IOBAND_NR_LIMITS,
};

/**
 * struct ioband_bucket - a token bucket, kept as a time
 * @rate: tokens (bytes or I/Os) a second, 0 for no limit
 * @full_ns: when the bucket will be full; in the past if it is
 * @rest: tokens * 10^9 that @full_ns doesn't hold yet, < @rate
 */
struct ioband_bucket {
	u64 rate;
	u64 full_ns;
	u64 rest;
};

/**
 * struct ioband_param - a number that a policy takes for each group
 * @name: as the documentation calls it
 * @key: as the long statistics call it, with the unit
 * @min: least value allowed
 * @max: largest value allowed
 * @def: value of a group that names none
 */
struct ioband_param {
	const char *name;
	const char *key;
	u32 min;
	u32 max;
	u32 def;
};

/**
 * struct ioband_claim - what a group may claim by its policy's parameters
 * @weight: weight among its siblings
 * @min_bps: bytes a second that it gets first, 0 for none
 * @max_bps: bytes a second that it never exceeds, 0 for no limit
 */
struct ioband_claim {
	u32 weight;
	u64 min_bps;
	u64 max_bps;
};

/**
 * struct ioband_policy - what makes one policy differ from another
 * @name: the word in the table line
 * @nr_params: how many numbers a group takes, separated by colons
 * @params: these numbers
 * @unit: tokens that a small I/O costs; scales the default burst
 * @cost: tokens of an I/O of @sectors that the lower device sees as @ios
 *	requests; at least 1
 * @check: why a group can't have these parameters, each of which is within its
 *	bounds; NULL if it can. Optional
 * @claim: what a group with these parameters may claim; *@claim is zeroed
 *
 * To add a policy, write one of these with its functions in
 * dm-ioband-policy.c and put it into ioband_policies[]. Table line, messages
 * and status take everything from here.
 */
struct ioband_policy {
	const char *name;
	unsigned int nr_params;
	struct ioband_param params[IOBAND_MAX_PARAMS];
	u32 unit;
	u32 (*cost)(u32 sectors, u32 ios);
	const char *(*check)(const u32 *params);
	void (*claim)(const u32 *params, struct ioband_claim *claim);
};

/**
 * struct ioband_req - an I/O as the core sees it
 * @node: place in its group's queue, by @key
 * @fifo: place in its group's queue by arrival
 * @key: priority, then order of arrival
 * @held_ns: when it was held
 * @sent_ns: when it was taken to be sent; 0 if it never passed the core
 * @sectors: data in 512-byte sectors
 * @ios: requests it makes at the lower device
 * @dir: enum ioband_dir
 * @prio: 0 goes first; see IOBAND_NR_PRIOS
 * @sync: somebody waits for it and is likely to send another after it
 *
 * Owned by the caller, who sets @sectors, @ios, @dir, @prio, @sync and clears
 * @sent_ns before the first call; the core's while it is held.
 */
struct ioband_req {
	struct rb_node node;
	struct list_head fifo;
	u64 key;
	u64 held_ns;
	u64 sent_ns;
	u32 sectors;
	u32 ios;
	u8 dir;
	u8 prio;
	bool sync;
};

/* Real time 0-7, best effort 8-15, idle 16. */
#define IOBAND_PRIO_BE		8
#define IOBAND_PRIO_IDLE	16
#define IOBAND_NR_PRIOS		17

/**
 * struct ioband_queue - held I/O of one group and direction
 * @reqs: struct ioband_req by key
 * @fifo: the same by arrival
 * @used: tokens taken from this queue; the direction that used less is next
 * @aged_ns: when its oldest I/O was last sent, in or out of order of priority
 */
struct ioband_queue {
	struct rb_root_cached reqs;
	struct list_head fifo;
	u64 used;
	u64 aged_ns;
};

/**
 * struct ioband_level - siblings and their clock
 * @timeline: those that have I/O to send in a direction, by start tag
 * @tag: start tag of the last one that was served: the clock
 * @span_tag: @tag when the siblings' tags were last looked after
 * @weights: sum of the weights of the active siblings
 * @pace_ns: start of the present measurement of the clock's pace
 * @pace_tag: @tag at that time
 * @pace: how far @tag moves in a second, 0 unknown
 */
struct ioband_level {
	struct rb_root_cached timeline[IOBAND_NR_DIRS];
	u64 tag;
	u64 span_tag;
	u64 weights;
	u64 pace_ns;
	u64 pace_tag;
	u64 pace;
};

struct ioband_sched;
struct ioband_share;

/**
 * struct ioband_pause - a group that may not be served in one direction yet
 * @node: place in ioband_sched.paused
 * @ready_ns: until when
 * @share: the group
 * @limit: enum ioband_limit that says so
 */
struct ioband_pause {
	struct rb_node node;
	u64 ready_ns;
	struct ioband_share *share;
	u8 limit;
};

/**
 * struct ioband_share - the scheduling state of a group
 * @sched: where it is scheduled
 * @parent: group that it is below, NULL at the top
 * @below: its children
 * @node: by direction, place in its level's timeline
 * @pause: by direction, place among the paused instead
 * @reserved: place in ioband_sched.reserved, while it has a minimum and I/O
 * @thirsty: place in ioband_sched.thirsty
 * @all: place in ioband_sched.shares while active
 * @returning: place in ioband_sched.returning while an I/O is awaited
 * @queue: its own held I/O by direction
 * @tag: start tag of its next I/O, or of one of its children
 * @own_tag: in its children's level, start tag of its own next I/O
 * @weight: its weight
 * @min_bps: bytes a second that it gets first
 * @due_ns: when it is behind that
 * @due_tag: start tag among those that are, in ns: bytes / minimum
 * @due: it is in ioband_sched.due, not in ioband_sched.reserved
 * @bucket: its limits
 * @burst_ns: size of the buckets in time, at any rate
 * @largest: bytes of the largest I/O, least size of the buckets
 * @largest_ios: requests of that
 * @held: number of its own held I/Os
 * @inside: I/Os that were taken and aren't done
 * @tokens_last: cost of its last I/O
 * @limited: bit mask of the limits set
 * @think_ns: mean time from a completion to the next arrival, 0 unknown
 * @done_ns: completions that no arrival has followed yet, a ring
 * @done_head: the oldest of @done_ns
 * @done_nr: how many there are
 * @active: counts in its level's weights
 */
struct ioband_share {
	struct ioband_sched *sched;
	struct ioband_share *parent;
	struct ioband_level below;
	struct rb_node node[IOBAND_NR_DIRS];
	struct ioband_pause pause[IOBAND_NR_DIRS];
	struct rb_node reserved;
	struct rb_node thirsty;
	struct list_head all;
	struct list_head returning;
	struct ioband_queue queue[IOBAND_NR_DIRS];
	u64 tag;
	u64 own_tag;
	u32 weight;
	u64 min_bps;
	u64 due_ns;
	u64 due_tag;
	bool due;
	struct ioband_bucket bucket[IOBAND_NR_LIMITS];
	u64 burst_ns;
	u32 largest;
	u32 largest_ios;
	u32 held;
	u32 inside;
	u32 tokens_last;
	u8 limited;
	u64 think_ns;
	u64 done_ns[IOBAND_MAX_RETURNS];
	u8 done_head;
	u8 done_nr;
	bool active;
};

/**
 * struct ioband_rate - how long blocks of completions took
 * @sum_ns: sum of their times
 * @tokens: sum of their tokens
 * @dev_ns: sum of the deviations from the time that the rate so far gave
 * @blocks: how many in @sum_ns
 * @devs: how many in @dev_ns
 */
struct ioband_rate {
	u64 sum_ns;
	u64 tokens;
	u64 dev_ns;
	u32 blocks;
	u32 devs;
};

/**
 * struct ioband_depth - the search for a disk's depth
 * @depth: depth in use
 * @found: the best so far
 * @other: what was found while it was the other way round with @alone, or 0
 * @trial: depth on trial instead, 0 for none
 * @pending: depth that was on trial, but the found one isn't known well enough
 * @full: a depth for which the disk's queue was too short, 0 if none is known
 * @most: largest depth allowed
 * @up_pct: how much deeper the next trial is
 * @down_pct: how much shallower, if the rate is uneven
 * @twice: depth that was better once, and has to be so again
 * @stretch: blocks are longer by this power of two
 * @count: completions in the present block
 * @tokens: of these
 * @skip: blocks to leave out yet
 * @held: part of the completions at which something was held, of late
 * @load: I/Os held or in flight, at most, of late
 * @run: completions since nothing was held or in flight
 * @peak: I/Os held or in flight since then, at most
 * @batches: part of the times at which the load ran out and had been a batch, of late
 * @free_wait: batches to wait until not to hold them is tried again
 * @free_left: of these, left
 * @idle: nothing was in flight since the last completion, or
 * @unseen: there were others since
 * @base_dry: a group was dry at the found depth, or the disk's queue too short
 * @tried_dry: the same of the depth on trial
 * @alone: only one group has I/O
 * @sent: tokens sent since the last trial began or ended
 * @dry: of these, sent while a group was dry
 * @tries: I/Os that a thread of ours handed to the disk since then
 * @stuck: of these, for which the disk's queue had no place
 * @block_ns: start of the present block
 * @last_ns: the last completion
 * @run_ns: the first of @run
 * @gap_ns: mean time between two
 * @base: blocks at the found depth
 * @recent: the latest of them, or of the trial
 * @tried: blocks at the depth on trial
 * @wait: blocks between two trials, 0 shallower, 1 deeper
 * @since: blocks since the last one
 */
struct ioband_depth {
	u32 depth;
	u32 found;
	u32 other;
	u32 trial;
	u32 pending;
	u32 full;
	u32 most;
	u32 up_pct;
	u32 down_pct;
	u32 twice;
	u32 stretch;
	u32 count;
	u32 skip;
	u32 held;
	u32 load;
	u32 run;
	u32 peak;
	u32 batches;
	u32 free_wait;
	u32 free_left;
	bool idle;
	bool unseen;
	bool base_dry;
	bool tried_dry;
	bool alone;
	u64 sent;
	u64 dry;
	u32 tries;
	u32 stuck;
	u64 tokens;
	u64 block_ns;
	u64 last_ns;
	u64 run_ns;
	u64 gap_ns;
	struct ioband_rate base;
	struct ioband_rate recent;
	struct ioband_rate tried;
	u32 wait[2];
	u32 since[2];
};

/**
 * struct ioband_sched - the scheduling state of a domain
 * @policy: how an I/O is charged
 * @root: the groups at the top
 * @paused: groups that wait for a limit, struct ioband_pause by time
 * @reserved: groups with a minimum and I/O, by the time they are due
 * @due: those for which that time has come, by their due tags
 * @due_tag: due tag of the last one that was served
 * @shares: the active groups
 * @returning: groups of which an I/O is awaited shortly
 * @batch: the group that goes on by the burst the administrator allowed
 * @inside: I/Os that were taken and aren't done
 * @seq: arrivals so far
 * @thirsty: groups that hold nothing and have I/O in the disk, by tag
 * @finder: the search for @depth
 * @find: it is on
 * @lone: the group of which the last I/O was, while @find
 * @lone_ns: since when there was no other
 * @depth: I/Os in flight at which holding starts, >= 1
 * @held: number of held I/Os
 * @token_base: burst in tokens, 0 for the policy's own
 * @carryover: rounds of credit that an idle group keeps
 * @service_ns: mean time of an I/O in the device, 0 unknown
 * @busy_ns: time that I/Os spent in the device, fading
 * @lost_ns: time that slots were kept free for returning groups, fading
 * @idle_ns: when slots began to be kept free, 0 if none is
 * @idle_slots: how many
 * @idles: how often slots were kept free
 * @round_tag: start of the present round
 * @rounds: rounds completed
 */
struct ioband_sched {
	const struct ioband_policy *policy;
	struct ioband_level root;
	struct rb_root_cached paused;
	struct rb_root_cached reserved;
	struct rb_root_cached due;
	u64 due_tag;
	struct list_head shares;
	struct list_head returning;
	struct ioband_share *batch;
	struct rb_root_cached thirsty;
	struct ioband_depth finder;
	bool find;
	const struct ioband_share *lone;
	u64 lone_ns;
	u32 inside;
	u64 seq;
	u32 depth;
	u32 held;
	u32 token_base;
	u32 carryover;
	u64 service_ns;
	u64 busy_ns;
	u64 lost_ns;
	u64 idle_ns;
	u32 idle_slots;
	u64 idles;
	u64 round_tag;
	u64 rounds;
};

/* dm-ioband-limit.c: token buckets */

void ioband_bucket_set(struct ioband_bucket *b, u64 rate, u64 least,
		       u64 old_burst_ns, u64 burst_ns, u64 now_ns);
u64 ioband_bucket_ready(const struct ioband_bucket *b, u64 tokens, u64 least,
			u64 burst_ns, u64 now_ns);
void ioband_bucket_take(struct ioband_bucket *b, u64 tokens, u64 now_ns);
void ioband_bucket_owe(struct ioband_bucket *b, u64 tokens, u64 least,
		       u64 burst_ns, u64 now_ns);

/* dm-ioband-depth.c: the depth of a disk */

void ioband_depth_start(struct ioband_depth *d, u32 most);
u32 ioband_depth_done(struct ioband_depth *d, u32 tokens, u32 load, bool held,
		      u64 now_ns);
u32 ioband_depth_alone(struct ioband_depth *d, bool alone);
void ioband_depth_sent(struct ioband_depth *d, u32 ios, u32 stuck);
u32 ioband_depth_idle(struct ioband_depth *d, bool unseen);
bool ioband_depth_watches(const struct ioband_depth *d);

/* dm-ioband-policy.c: the order of groups and I/O */

const struct ioband_policy *ioband_policy_find(const char *name);
const struct ioband_policy *ioband_policy_next(const struct ioband_policy *p);

void ioband_sched_init(struct ioband_sched *s, const struct ioband_policy *p,
		       u32 depth);
void ioband_sched_set_depth(struct ioband_sched *s, u32 depth);
void ioband_sched_find_depth(struct ioband_sched *s, u32 most);

void ioband_share_init(struct ioband_share *g, struct ioband_sched *s,
		       u32 largest, u32 largest_ios);
void ioband_share_activate(struct ioband_share *g);
void ioband_share_deactivate(struct ioband_share *g);
void ioband_share_set_claim(struct ioband_share *g,
			    const struct ioband_claim *claim, u64 now_ns);
void ioband_share_set_limits(struct ioband_share *g, const u64 *rates,
			     u64 burst_ns, u64 now_ns);
void ioband_share_set_parent(struct ioband_share *g,
			     struct ioband_share *parent, u64 now_ns);
bool ioband_share_limited(const struct ioband_share *g);
void ioband_sched_set_policy(struct ioband_sched *s,
			     const struct ioband_policy *p);

void ioband_hold(struct ioband_share *g, struct ioband_req *r, u64 now_ns);
struct ioband_req *ioband_peek(struct ioband_sched *s, u32 in_flight,
			       u64 now_ns, u64 *until_ns);
void ioband_take(struct ioband_share *g, struct ioband_req *r, u64 now_ns);
void ioband_done(struct ioband_share *g, struct ioband_req *r, u64 now_ns);
void ioband_sent(struct ioband_sched *s, u32 ios, u32 stuck);
void ioband_charge(struct ioband_share *g, u64 tokens);
void ioband_charge_debt(struct ioband_share *g, const struct ioband_req *r,
			u64 now_ns);
struct ioband_req *ioband_drain(struct ioband_share *g);
bool ioband_wants_room(const struct ioband_sched *s);
const struct ioband_share *ioband_alone(const struct ioband_sched *s);
bool ioband_watches(struct ioband_sched *s, u32 in_flight);
const struct ioband_share *ioband_pausing(const struct ioband_share *g,
					  enum ioband_limit *limit);
u64 ioband_lead(const struct ioband_share *g);
u64 ioband_level_weights(const struct ioband_share *g);
bool ioband_is_next(const struct ioband_share *g, u64 now_ns);

#endif /* DM_IOBAND_POLICY_H */
