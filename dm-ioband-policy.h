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
#define IOBAND_MAX_TOKENS	BIT(23)
#define IOBAND_WEIGHT_MIN	1
#define IOBAND_WEIGHT_MAX	32767
#define IOBAND_WEIGHT_DEFAULT	100
#define IOBAND_CARRYOVER_DEFAULT 1
#define IOBAND_MAX_PARAMS	2
/* Completions of a group that the core remembers until an I/O follows. */
#define IOBAND_MAX_RETURNS	16

enum ioband_dir {
	IOBAND_READ,
	IOBAND_WRITE,
	IOBAND_NR_DIRS,
};

/**
 * struct ioband_param - a number that a policy takes for each group
 * @name: as the documentation calls it
 * @min: least value allowed
 * @max: largest value allowed
 * @def: value of a group that names none
 */
struct ioband_param {
	const char *name;
	u32 min;
	u32 max;
	u32 def;
};

/**
 * struct ioband_policy - what makes one policy differ from another
 * @name: the word in the table line
 * @nr_params: how many numbers a group takes, separated by colons
 * @params: these numbers
 * @unit: tokens that a small I/O costs; scales the default burst
 * @cost: tokens of an I/O of @sectors that the lower device sees as @ios
 *	requests; at least 1
 * @weight: weight of a group with these parameters
 *
 * To add a policy, write one of these and name it in ioband_policies[].
 */
struct ioband_policy {
	const char *name;
	unsigned int nr_params;
	struct ioband_param params[IOBAND_MAX_PARAMS];
	u32 unit;
	u32 (*cost)(u32 sectors, u32 ios);
	u32 (*weight)(const u32 *params);
};

/**
 * struct ioband_req - an I/O as the core sees it
 * @node: place in its group's queue, by @key
 * @fifo: place among all held I/O of its group, by arrival
 * @key: priority, then order of arrival
 * @held_ns: when it was held
 * @sent_ns: when it was taken to be sent; 0 if it never passed the core
 * @tokens: what it costs
 * @ios: requests it makes at the lower device
 * @dir: enum ioband_dir
 * @prio: 0 goes first; see IOBAND_NR_PRIOS
 * @sync: somebody waits for it and is likely to send another after it
 *
 * Owned by the caller, who sets @tokens, @ios, @dir, @prio, @sync and clears
 * @sent_ns before the first call; the core's while it is held.
 */
struct ioband_req {
	struct rb_node node;
	struct list_head fifo;
	u64 key;
	u64 held_ns;
	u64 sent_ns;
	u32 tokens;
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
 * @used: tokens taken from this queue; the direction that used less is next
 */
struct ioband_queue {
	struct rb_root_cached reqs;
	u64 used;
};

struct ioband_sched;

/**
 * struct ioband_share - the scheduling state of a group
 * @sched: where it is scheduled
 * @node: place in ioband_sched.timeline while it holds I/O
 * @all: place in ioband_sched.shares while active
 * @returning: place in ioband_sched.returning while an I/O is awaited
 * @fifo: held I/O by arrival
 * @queue: held I/O by direction
 * @tag: start tag of its next I/O
 * @weight: its weight
 * @held: number of held I/Os
 * @tokens_last: cost of its last I/O
 * @aged_ns: when its oldest I/O was last sent out of the order of priority
 * @think_ns: mean time from a completion to the next arrival, 0 unknown
 * @done_ns: completions that no arrival has followed yet, a ring
 * @done_head: the oldest of @done_ns
 * @done_nr: how many there are
 * @active: counts in ioband_sched.weights
 */
struct ioband_share {
	struct ioband_sched *sched;
	struct rb_node node;
	struct list_head all;
	struct list_head returning;
	struct list_head fifo;
	struct ioband_queue queue[IOBAND_NR_DIRS];
	u64 tag;
	u32 weight;
	u32 held;
	u32 tokens_last;
	u64 aged_ns;
	u64 think_ns;
	u64 done_ns[IOBAND_MAX_RETURNS];
	u8 done_head;
	u8 done_nr;
	bool active;
};

/**
 * struct ioband_sched - the scheduling state of a domain
 * @policy: how an I/O is charged
 * @timeline: groups that hold I/O, by start tag
 * @shares: the active groups
 * @returning: groups of which an I/O is awaited shortly
 * @batch: the group that goes on by the burst the administrator allowed
 * @tag: start tag of the last I/O sent: the domain's clock
 * @span_tag: @tag when @shares was last walked
 * @seq: arrivals so far
 * @weights: sum of the weights of the active groups
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
 * @pace_ns: start of the present measurement of the clock's pace
 * @pace_tag: @tag at that time
 * @pace: how far @tag moves in a second, 0 unknown
 */
struct ioband_sched {
	const struct ioband_policy *policy;
	struct rb_root_cached timeline;
	struct list_head shares;
	struct list_head returning;
	struct ioband_share *batch;
	u64 tag;
	u64 span_tag;
	u64 seq;
	u64 weights;
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
	u64 pace_ns;
	u64 pace_tag;
	u64 pace;
};

const struct ioband_policy *ioband_policy_find(const char *name);
const struct ioband_policy *ioband_policy_next(const struct ioband_policy *p);

void ioband_sched_init(struct ioband_sched *s, const struct ioband_policy *p,
		       u32 depth);
void ioband_sched_set_depth(struct ioband_sched *s, u32 depth);

void ioband_share_init(struct ioband_share *g, struct ioband_sched *s,
		       u32 weight);
void ioband_share_activate(struct ioband_share *g);
void ioband_share_deactivate(struct ioband_share *g);
void ioband_share_set_weight(struct ioband_share *g, u32 weight);

void ioband_hold(struct ioband_share *g, struct ioband_req *r, u64 now_ns);
struct ioband_req *ioband_peek(struct ioband_sched *s, u32 in_flight,
			       u64 now_ns, u64 *until_ns);
void ioband_take(struct ioband_share *g, struct ioband_req *r, u64 now_ns);
void ioband_done(struct ioband_share *g, struct ioband_req *r, u64 now_ns);
void ioband_charge(struct ioband_share *g, u64 tokens, bool debt);
struct ioband_req *ioband_drain(struct ioband_share *g);

#endif /* DM_IOBAND_POLICY_H */
