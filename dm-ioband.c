// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-ioband: the target and the way of an I/O through it.
 *
 * Knows bios and contexts, decides nothing: see dm-ioband.h for the picture.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/ioprio.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "dm-ioband.h"

/* I/Os that the worker takes under the lock at a time, at most. */
#define BATCH_MAX	32U
/* Batches from this size on are plugged. */
#define PLUG_MIN	8

static struct bio *ioband_bio(struct ioband_io *io)
{
	return dm_bio_from_per_bio_data(io, sizeof(*io));
}

static struct ioband_io *req_to_io(struct ioband_req *r)
{
	return container_of(r, struct ioband_io, req);
}

/* Count an I/O that is sent on. */
static __always_inline void ioband_count(struct ioband_io *io)
{
	struct ioband_counts __percpu *c = io->group->counts;

	this_cpu_add(c->ios[io->req.dir], io->req.ios);
	this_cpu_add(c->sectors[io->req.dir], io->req.sectors);
	io->sent = true;
}

/* The same of one that the core was told of: it isn't to be folded later. */
static void __ioband_count(struct ioband_io *io)
{
	io->group->told_ios += io->req.ios;
	io->group->told_sectors += io->req.sectors;
	ioband_count(io);
}

/*
 * Count an I/O in flight if the threshold and the limit leave room for it. An
 * I/O larger than the limit goes alone.
 */
static bool ioband_has_room(const struct ioband_domain *dom, u32 in_flight,
			    u32 ios)
{
	return in_flight < READ_ONCE(dom->depth) &&
	       (in_flight + ios <= READ_ONCE(dom->limit) || !in_flight);
}

static __always_inline bool ioband_get_room(struct ioband_domain *dom, u32 ios)
{
	u32 before = atomic_add_return(ios, &dom->in_flight) - ios;

	if (likely(ioband_has_room(dom, before, ios)))
		return true;
	atomic_sub(ios, &dom->in_flight);
	return false;
}

/*
 * The next I/O to go, counted in flight and the caller's to send; else NULL
 * and the time to ask again.
 */
static struct ioband_io *__ioband_next(struct ioband_domain *dom, u64 now_ns,
				       u64 *until_ns)
{
	struct ioband_req *r;
	struct ioband_io *io;

	lockdep_assert_held(&dom->lock);

	r = ioband_peek(&dom->sched, atomic_read(&dom->in_flight), now_ns,
			until_ns);
	if (!r || !ioband_get_room(dom, r->ios))
		return NULL;
	io = req_to_io(r);
	io->in_flight = true;
	ioband_take(&io->group->share, r, now_ns);
	__ioband_count(io);
	return io;
}

/* Others must take the lock from now on, so that their I/O is put in order. */
static void __ioband_contend(struct ioband_domain *dom)
{
	lockdep_assert_held(&dom->lock);

	if (dom->contended)
		return;
	WRITE_ONCE(dom->contended, true);
	dom->epoch++;
	/* Pairs with atomic_sub_return() in ioband_end_io(). */
	smp_mb();
}

/**
 * __ioband_domain_follow - put in force what the core found
 * @dom: the domain
 *
 * Context: any, under ioband_domain.lock.
 */
void __ioband_domain_follow(struct ioband_domain *dom)
{
	const struct ioband_share *lone = ioband_alone(&dom->sched);

	lockdep_assert_held(&dom->lock);

	/* Others read it all the time. */
	if (dom->depth != dom->sched.depth)
		WRITE_ONCE(dom->depth, dom->sched.depth);
	if (dom->lone != lone)
		WRITE_ONCE(dom->lone, lone);
}

static void __ioband_kick(struct ioband_domain *dom)
{
	dom->kicked = true;
	kthread_queue_work(dom->worker, &dom->work);
}

/**
 * __ioband_domain_wake - see that somebody acts on the present state
 * @dom: the domain
 * @now_ns: time
 *
 * The worker, the timer or nobody.
 *
 * Context: any, under ioband_domain.lock.
 */
void __ioband_domain_wake(struct ioband_domain *dom, u64 now_ns)
{
	struct ioband_req *r;
	u32 in_flight;
	u64 until_ns;

	lockdep_assert_held(&dom->lock);

	if (dom->kicked)
		return;
	/* Before in_flight is read: a completion after that must wake. */
	if (dom->sched.held)
		__ioband_contend(dom);
	in_flight = atomic_read(&dom->in_flight);
	r = ioband_peek(&dom->sched, in_flight, now_ns, &until_ns);
	if (r) {
		/* Else the limit is reached and a completion wakes. */
		if (ioband_has_room(dom, in_flight, r->ios))
			__ioband_kick(dom);
	} else if (until_ns) {
		hrtimer_start(&dom->timer, ns_to_ktime(until_ns),
			      HRTIMER_MODE_ABS);
	}
	if (!ioband_watches(&dom->sched, in_flight))
		WRITE_ONCE(dom->contended, false);
}

/*
 * Returns true if we had to sleep, which is for a place in the queue of the disk,
 * whichever devices are in between.
 */
static bool ioband_send_one(struct bio *bio)
{
	unsigned long sleeps = current->nvcsw;

	/* Not the submitter sleeps here but we, and we may. */
	bio->bi_opf &= ~REQ_NOWAIT;
	dm_submit_bio_remap(bio, NULL);
	return current->nvcsw != sleeps;
}

/* Rare: the threshold is above what the disk's queue has places for. */
static void ioband_note_stuck(struct ioband_domain *dom)
{
	unsigned long flags;

	spin_lock_irqsave(&dom->lock, flags);
	ioband_sent(&dom->sched, 1, 1);
	spin_unlock_irqrestore(&dom->lock, flags);
}

/*
 * A plug lets the lower device merge and batch, but the first I/O waits for
 * the last: not worth it for a few. Returns for how many we had to sleep.
 */
static unsigned int ioband_send(struct bio_list *bios, unsigned int nr)
{
	unsigned int stuck = 0;
	struct blk_plug plug;
	struct bio *bio;

	if (nr >= PLUG_MIN)
		blk_start_plug(&plug);
	while ((bio = bio_list_pop(bios)))
		stuck += ioband_send_one(bio);
	if (nr >= PLUG_MIN)
		blk_finish_plug(&plug);
	return stuck;
}

static void __ioband_note_wait(struct ioband_group *g, u64 wait_ns)
{
	struct ioband_waits *w = &g->waits;
	u64 us = div_u64(wait_ns, NSEC_PER_USEC * IOBAND_WAIT_FIRST_US);

	w->total_ns += wait_ns;
	w->max_ns = max(w->max_ns, wait_ns);
	w->hist[min_t(unsigned int, fls64(us), IOBAND_WAIT_SLOTS - 1)]++;
}

/*
 * The first I/O goes at once, the batches double from there: a slot that a
 * completion freed stands idle until its next I/O is sent.
 */
static void ioband_work(struct kthread_work *work)
{
	struct ioband_domain *dom = container_of(work, struct ioband_domain,
						 work);
	struct bio_list bios = BIO_EMPTY_LIST;
	unsigned int batch = 1, n = 0, stuck = 0;
	struct ioband_io *io;
	unsigned long flags;
	u64 now_ns, until_ns;

	do {
		spin_lock_irqsave(&dom->lock, flags);
		dom->kicked = true;
		ioband_sent(&dom->sched, n, stuck);
		now_ns = ktime_get_ns();
		bio_list_merge(&bios, &dom->ready);
		bio_list_init(&dom->ready);
		for (n = bio_list_size(&bios); n < batch; n++) {
			io = __ioband_next(dom, now_ns, &until_ns);
			if (!io)
				break;
			__ioband_note_wait(io->group, now_ns - io->req.held_ns);
			bio_list_add(&bios, ioband_bio(io));
		}
		if (!n) {
			dom->kicked = false;
			__ioband_domain_wake(dom, now_ns);
		}
		spin_unlock_irqrestore(&dom->lock, flags);
		stuck = ioband_send(&bios, n);
		batch = min(batch * 2, BATCH_MAX);
		cond_resched();
	} while (n);
}

static enum hrtimer_restart ioband_timer(struct hrtimer *timer)
{
	struct ioband_domain *dom = container_of(timer, struct ioband_domain,
						 timer);

	kthread_queue_work(dom->worker, &dom->work);
	return HRTIMER_NORESTART;
}

/**
 * ioband_domain_init - set up a domain's part in the data path
 * @dom: the domain, zeroed
 *
 * Context: process, sleeps; nobody else uses @dom yet.
 * Return: 0 or a negative errno.
 */
int ioband_domain_init(struct ioband_domain *dom)
{
	dom->worker = kthread_create_worker(0, "ioband/%s", dom->name);
	if (IS_ERR(dom->worker))
		return PTR_ERR(dom->worker);
	sched_set_fifo_low(dom->worker->task);
	spin_lock_init(&dom->lock);
	kthread_init_work(&dom->work, ioband_work);
	hrtimer_init(&dom->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	dom->timer.function = ioband_timer;
	return 0;
}

/**
 * ioband_domain_stop - wait until nothing of a domain runs any more
 * @dom: the domain; its devices are gone
 *
 * Context: process, sleeps; not under ioband_mutex.
 */
void ioband_domain_stop(struct ioband_domain *dom)
{
	hrtimer_cancel(&dom->timer);
	kthread_destroy_worker(dom->worker);
	WARN_ON_ONCE(dom->sched.held || atomic_read(&dom->in_flight));
}

static u8 ioband_prio(const struct bio *bio)
{
	unsigned int level = IOPRIO_PRIO_LEVEL(bio->bi_ioprio);

	switch (IOPRIO_PRIO_CLASS(bio->bi_ioprio)) {
	case IOPRIO_CLASS_RT:
		return level;
	case IOPRIO_CLASS_IDLE:
		return IOBAND_PRIO_IDLE;
	case IOPRIO_CLASS_BE:
		return IOBAND_PRIO_BE + level;
	default:
		return IOBAND_PRIO_BE + IOPRIO_BE_NORM;
	}
}

static bool is_empty_flush(const struct bio *bio)
{
	return (bio->bi_opf & REQ_PREFLUSH) && !bio_sectors(bio);
}

/* What others wait for, or what frees memory. It goes at once and is charged. */
static bool is_urgent(const struct bio *bio)
{
	return (bio->bi_opf & (REQ_META | REQ_PRIO | REQ_SWAP)) ||
	       (current->flags & PF_MEMALLOC);
}

/* Describe a bio to the core. */
static void ioband_io_init(struct ioband_io *io, struct bio *bio)
{
	struct ioband_req *r = &io->req;
	u32 sectors = 0, ios = 1, max;

	/* Discard and write zeroes have a size but no data. */
	if (bio_has_data(bio)) {
		sectors = bio_sectors(bio);
		max = queue_max_sectors(bdev_get_queue(bio->bi_bdev));
		if (unlikely(sectors > max))
			ios = DIV_ROUND_UP(sectors, max);
	}
	io->sent = false;
	io->in_flight = false;
	r->sent_ns = 0;
	r->sectors = sectors;
	r->ios = ios;
	r->dir = op_is_write(bio_op(bio)) ? IOBAND_WRITE : IOBAND_READ;
	r->sync = op_is_sync(bio->bi_opf);
}

/**
 * __ioband_fold - tell the core of I/O that a group sent without asking
 * @dom: the domain
 * @g: the group
 *
 * Context: any, under ioband_domain.lock.
 */
void __ioband_fold(struct ioband_domain *dom, struct ioband_group *g)
{
	u64 ios = 0, sectors = 0;
	int cpu, dir;

	lockdep_assert_held(&dom->lock);

	g->epoch = dom->epoch;
	for_each_possible_cpu(cpu) {
		const struct ioband_counts *c = per_cpu_ptr(g->counts, cpu);

		for (dir = 0; dir < IOBAND_NR_DIRS; dir++) {
			ios += READ_ONCE(c->ios[dir]);
			sectors += READ_ONCE(c->sectors[dir]);
		}
	}
	swap(ios, g->told_ios);
	swap(sectors, g->told_sectors);
	ios = min_t(u64, g->told_ios - ios, U32_MAX);
	sectors = min_t(u64, g->told_sectors - sectors, U32_MAX);
	if (ios)
		ioband_charge(&g->share, dom->sched.policy->cost(sectors, ios));
}

/*
 * The way of an I/O when there is no room, when others are held, or limited. The
 * one whose turn it is goes into *@send, if there is room: no need to wait for the
 * worker. But who may not sleep doesn't send for others.
 */
static int ioband_map_contended(struct ioband_device *dev, struct bio *bio,
				struct ioband_io *io, bool urgent,
				struct ioband_io **send)
{
	struct ioband_domain *dom = dev->domain;
	int ret = DM_MAPIO_REMAPPED;
	struct ioband_io *next;
	struct ioband_group *g;
	unsigned long flags;
	u64 now_ns, until_ns;

	spin_lock_irqsave(&dom->lock, flags);
	if (unlikely(io->group->gone))
		io->group = dev->fallback;
	g = io->group;
	if (g->epoch != dom->epoch)
		__ioband_fold(dom, g);

	now_ns = ktime_get_ns();
	if (dev->straight && !urgent && dm_noflush_suspending(dev->ti)) {
		/* Pushed back, and device-mapper hasn't stopped all I/O yet. */
		ret = DM_MAPIO_REQUEUE;
	} else if (urgent || dev->straight) {
		atomic_add(io->req.ios, &dom->in_flight);
		io->in_flight = true;
		__ioband_count(io);
		if (!dev->straight)
			ioband_charge_debt(&g->share, &io->req, now_ns);
		__ioband_domain_follow(dom);
	} else {
		io->req.prio = ioband_prio(bio);
		ioband_hold(&g->share, &io->req, now_ns);
		__ioband_domain_follow(dom);
		next = NULL;
		if (!(bio->bi_opf & REQ_NOWAIT) ||
		    ioband_peek(&dom->sched, atomic_read(&dom->in_flight),
				now_ns, &until_ns) == &io->req)
			next = __ioband_next(dom, now_ns, &until_ns);
		if (next != io) {
			this_cpu_add(g->counts->held[io->req.dir],
				     io->req.ios);
			ret = DM_MAPIO_SUBMITTED;
			*send = next;
			if (next)
				__ioband_note_wait(next->group,
						   now_ns - next->req.held_ns);
		} else if (!(bio->bi_opf & REQ_NOWAIT)) {
			/* Sent by us, to see whether it has to wait. */
			ret = DM_MAPIO_SUBMITTED;
			*send = io;
		}
	}
	if (dom->sched.held)
		__ioband_domain_wake(dom, now_ns);
	spin_unlock_irqrestore(&dom->lock, flags);
	return ret;
}

/* Is it not the group that has the disk to itself, if there is one? */
static bool is_another(const struct ioband_share *lone,
		       const struct ioband_group *g)
{
	return lone && lone != &g->share;
}

/*
 * Whatever isn't simply sent on. Out of the way of what is, and it leaves the
 * read-side section of RCU that it is called in: to send one may have to sleep.
 */
static noinline int ioband_map_slow(struct ioband_device *dev, struct bio *bio,
				    struct ioband_io *io, bool urgent)
	__releases(RCU)
{
	struct ioband_io *send = NULL;
	int ret;

	ret = ioband_map_contended(dev, bio, io, urgent, &send);
	rcu_read_unlock();
	if (send && ioband_send_one(ioband_bio(send)))
		ioband_note_stuck(dev->domain);
	return ret;
}

static int ioband_map(struct dm_target *ti, struct bio *bio)
{
	struct ioband_device *dev = ti->private;
	struct ioband_domain *dom = dev->domain;
	struct ioband_io *io = dm_per_bio_data(bio, sizeof(*io));
	bool urgent;

	bio_set_dev(bio, dev->dev->bdev);
	bio->bi_iter.bi_sector = dm_target_offset(ti, bio->bi_iter.bi_sector);
	ioband_io_init(io, bio);
	/* The group stays until the I/O is counted; that keeps it. */
	rcu_read_lock();
	io->group = ioband_group_of(dev, bio);
	if (likely(!is_empty_flush(bio))) {
		urgent = is_urgent(bio);
		if (unlikely(READ_ONCE(dom->contended) ||
			     READ_ONCE(io->group->always) ||
			     is_another(READ_ONCE(dom->lone), io->group)))
			return ioband_map_slow(dev, bio, io, urgent);
		if (unlikely(urgent))
			atomic_add(io->req.ios, &dom->in_flight);
		else if (unlikely(!ioband_get_room(dom, io->req.ios)))
			return ioband_map_slow(dev, bio, io, urgent);
		io->in_flight = true;
	}
	ioband_count(io);
	rcu_read_unlock();
	return DM_MAPIO_REMAPPED;
}

static int ioband_end_io(struct dm_target *ti, struct bio *bio,
			 blk_status_t *error)
{
	struct ioband_device *dev = ti->private;
	struct ioband_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct ioband_domain *dom = dev->domain;
	unsigned long flags;
	u64 now_ns;

	if (unlikely(!io->sent))
		return DM_ENDIO_DONE;
	if (likely(io->in_flight)) {
		/* A full barrier: pairs with smp_mb() in __ioband_contend(). */
		atomic_sub_return(io->req.ios, &dom->in_flight);
		/* What the core sent has to come back to it. */
		if (unlikely(READ_ONCE(dom->contended) || io->req.sent_ns)) {
			spin_lock_irqsave(&dom->lock, flags);
			now_ns = ktime_get_ns();
			ioband_done(&io->group->share, &io->req, now_ns);
			__ioband_domain_follow(dom);
			__ioband_domain_wake(dom, now_ns);
			spin_unlock_irqrestore(&dom->lock, flags);
		}
	}
	/* Last: the group may be freed from here on. */
	this_cpu_add(io->group->counts->done, io->req.ios);
	return DM_ENDIO_DONE;
}

static void __ioband_send_soon(struct ioband_domain *dom, struct ioband_io *io,
			       u64 now_ns)
{
	__ioband_note_wait(io->group, now_ns - io->req.held_ns);
	atomic_add(io->req.ios, &dom->in_flight);
	io->in_flight = true;
	__ioband_count(io);
	bio_list_add(&dom->ready, ioband_bio(io));
}

/**
 * __ioband_group_release - send all that a group holds, and hold no more
 * @dev: its device
 * @g: the group, which is being detached
 *
 * Context: any, under ioband_domain.lock.
 */
void __ioband_group_release(struct ioband_device *dev, struct ioband_group *g)
{
	struct ioband_domain *dom = dev->domain;
	u64 now_ns = ktime_get_ns();
	struct ioband_req *r;

	lockdep_assert_held(&dom->lock);

	g->gone = true;
	while ((r = ioband_drain(&g->share)))
		__ioband_send_soon(dom, req_to_io(r), now_ns);
	ioband_share_deactivate(&g->share);
	__ioband_domain_follow(dom);
	__ioband_kick(dom);
}

/*
 * From here on nothing of this device is held. New I/O still comes until the
 * suspend is complete; it goes straight down.
 */
static void ioband_presuspend(struct dm_target *ti)
{
	struct ioband_device *dev = ti->private;
	struct ioband_domain *dom = dev->domain;
	bool push_back = dm_noflush_suspending(ti);
	struct bio_list bios = BIO_EMPTY_LIST;
	struct ioband_group *g;
	struct ioband_req *r;
	unsigned long flags;
	struct bio *bio;
	u64 now_ns;

	spin_lock_irqsave(&dom->lock, flags);
	now_ns = ktime_get_ns();
	dev->straight = true;
	list_for_each_entry(g, &dev->groups, list) {
		while ((r = ioband_drain(&g->share))) {
			if (!push_back) {
				__ioband_send_soon(dom, req_to_io(r), now_ns);
				continue;
			}
			/* It comes again and is counted then. */
			this_cpu_add(g->counts->held[r->dir], -(u64)r->ios);
			bio_list_add(&bios, ioband_bio(req_to_io(r)));
		}
	}
	__ioband_kick(dom);
	spin_unlock_irqrestore(&dom->lock, flags);

	while ((bio = bio_list_pop(&bios))) {
		bio->bi_status = BLK_STS_DM_REQUEUE;
		bio_endio(bio);
	}
}

static void ioband_set_active(struct ioband_device *dev, bool active)
{
	struct ioband_domain *dom = dev->domain;
	struct ioband_group *g;
	unsigned long flags;

	spin_lock_irqsave(&dom->lock, flags);
	dev->straight = !active;
	list_for_each_entry(g, &dev->groups, list) {
		if (active)
			ioband_share_activate(&g->share);
		else
			ioband_share_deactivate(&g->share);
	}
	__ioband_domain_follow(dom);
	spin_unlock_irqrestore(&dom->lock, flags);
}

static void ioband_postsuspend(struct dm_target *ti)
{
	ioband_set_active(ti->private, false);
}

static int ioband_preresume(struct dm_target *ti)
{
	return ioband_apply(ti->private);
}

static void ioband_resume(struct dm_target *ti)
{
	ioband_set_active(ti->private, true);
}

static int ioband_prepare_ioctl(struct dm_target *ti,
				struct block_device **bdev)
{
	struct ioband_device *dev = ti->private;

	*bdev = dev->dev->bdev;
	/* Only the whole device may be spoken to in its own terms. */
	return ti->len != bdev_nr_sectors(*bdev);
}

static int ioband_iterate_devices(struct dm_target *ti,
				  iterate_devices_callout_fn fn, void *data)
{
	struct ioband_device *dev = ti->private;

	return fn(ti, dev->dev, 0, ti->len, data);
}

static struct target_type ioband_target = {
	.name		 = "ioband",
	.version	 = { 2, 0, 0 },
	.features	 = DM_TARGET_PASSES_INTEGRITY | DM_TARGET_NOWAIT |
			   DM_TARGET_PASSES_CRYPTO,
	.module		 = THIS_MODULE,
	.ctr		 = ioband_ctr,
	.dtr		 = ioband_dtr,
	.map		 = ioband_map,
	.end_io		 = ioband_end_io,
	.presuspend	 = ioband_presuspend,
	.presuspend_undo = ioband_resume,
	.postsuspend	 = ioband_postsuspend,
	.preresume	 = ioband_preresume,
	.resume		 = ioband_resume,
	.status		 = ioband_status,
	.message	 = ioband_message,
	.prepare_ioctl	 = ioband_prepare_ioctl,
	.iterate_devices = ioband_iterate_devices,
};

static int __init dm_ioband_init(void)
{
	return dm_register_target(&ioband_target);
}

static void __exit dm_ioband_exit(void)
{
	dm_unregister_target(&ioband_target);
}

module_init(dm_ioband_init);
module_exit(dm_ioband_exit);

MODULE_DESCRIPTION(DM_NAME " target that shares a disk by weight");
MODULE_LICENSE("GPL");
