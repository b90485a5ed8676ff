// SPDX-License-Identifier: GPL-2.0-only
#include <assert.h>
#include <math.h>
#include <string.h>

#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/time64.h>

#include "disk.h"

/* A disk of 7200 turns a minute. */
#define TURN_NS		8333333ULL
#define SEEK_LEAST_NS	1000000ULL
#define SEEK_MORE_NS	8000000ULL
#define TRANSFER_NS	50000ULL
#define TRACKS		1000000U

void disk_init(struct disk *d, const struct sim_disk *model,
	       struct sim_rand *rand)
{
	assert(model->kind != DISK_CHANNELS ||
	       model->servers <= DISK_MAX_CHANNELS);
	memset(d, 0, sizeof(*d));
	d->model = *model;
	d->rand = rand;
	d->tail = &d->head;
}

/* How long it takes until the head and the surface are there. */
static u64 position_ns(const struct disk *d, const struct disk_io *io,
		       u64 now_ns)
{
	u32 way = io->track > d->track ? io->track - d->track :
					 d->track - io->track;
	u64 seek = 0, angle;

	if (way)
		seek = SEEK_LEAST_NS +
		       (u64)(SEEK_MORE_NS * sqrt((double)way / TRACKS));
	angle = (now_ns + seek) % TURN_NS;
	return seek + (io->angle_ns + TURN_NS - angle) % TURN_NS;
}

/* How long the disk is at work on an I/O. */
static u64 work_ns(const struct disk *d, const struct disk_io *io, u64 now_ns)
{
	const struct sim_disk *m = &d->model;
	u64 ns = io->write && m->write_ns ? m->write_ns : m->read_ns;

	if (m->kind == DISK_ROTATES)
		ns = position_ns(d, io, now_ns) + TRANSFER_NS;
	if (m->bytes_per_sec && m->kind != DISK_TICKS)
		ns += (u64)io->sectors * SECTOR_BYTES * NSEC_PER_SEC /
		      m->bytes_per_sec;
	if (m->change_ns && now_ns >= m->change_ns)
		ns = ns * m->change_pct / 100;
	return max_t(u64, sim_rand_jitter(d->rand, ns, m->jitter_pct), 1);
}

/* How long it takes until there is a tick with bytes left. */
static u64 tick_wait_ns(struct disk *d, const struct disk_io *io, u64 now_ns)
{
	u64 in_all = d->model.bytes_per_sec * DISK_TICK_NS / NSEC_PER_SEC;
	u64 bytes = (u64)io->sectors * SECTOR_BYTES;

	if (d->tick < now_ns / DISK_TICK_NS) {
		d->tick = now_ns / DISK_TICK_NS;
		d->left = in_all;
	}
	while (bytes > d->left) {
		bytes -= d->left;
		d->tick++;
		d->left = in_all;
	}
	d->left -= bytes;
	return max(now_ns, d->tick * DISK_TICK_NS) - now_ns;
}

static void start(struct disk *d, struct disk_io *io, u64 now_ns)
{
	const struct sim_disk *m = &d->model;
	u64 *free_ns;

	d->busy++;
	io->done_ns = now_ns + work_ns(d, io, now_ns);
	d->track = io->track;
	if (m->kind == DISK_TICKS)
		io->done_ns += tick_wait_ns(d, io, now_ns);
	if (m->kind != DISK_CHANNELS)
		return;
	free_ns = &d->free_ns[sim_rand_range(d->rand, 0, m->servers - 1)];
	if (*free_ns > now_ns)
		io->done_ns += *free_ns - now_ns;
	if (io->write && m->stall_every && ++d->writes % m->stall_every == 0)
		io->done_ns += DISK_STALL_NS;
	*free_ns = io->done_ns;
}

/* I/Os that the disk has begun with, at most. */
static u32 most_busy(const struct disk *d)
{
	switch (d->model.kind) {
	case DISK_ROTATES:
		return 1;
	case DISK_CHANNELS:
		/* Which channel it is shows when it arrives. */
		return U32_MAX;
	default:
		return d->model.servers;
	}
}

bool disk_submit(struct disk *d, struct disk_io *io, u64 now_ns)
{
	if (d->model.kind == DISK_ROTATES) {
		io->track = sim_rand_range(d->rand, 0, TRACKS - 1);
		io->angle_ns = sim_rand_range(d->rand, 0, TURN_NS - 1);
	}
	if (d->busy < most_busy(d)) {
		start(d, io, now_ns);
		return true;
	}
	io->next = NULL;
	*d->tail = io;
	d->tail = &io->next;
	return false;
}

/* Where the next one hangs: the first one, or that which is nearest. */
static struct disk_io **choose(struct disk *d, u64 now_ns)
{
	struct disk_io **best = &d->head, **p;
	u64 best_ns = U64_MAX, ns;
	u32 n = 0;

	if (d->model.kind != DISK_ROTATES)
		return best;
	for (p = &d->head; *p && n < DISK_NCQ; p = &(*p)->next, n++) {
		ns = position_ns(d, *p, now_ns);
		if (ns < best_ns) {
			best_ns = ns;
			best = p;
		}
	}
	return best;
}

struct disk_io *disk_complete(struct disk *d, u64 now_ns)
{
	struct disk_io **p, *io;

	d->busy--;
	if (!d->head)
		return NULL;
	p = choose(d, now_ns);
	io = *p;
	*p = io->next;
	if (!*p)
		d->tail = p;
	start(d, io, now_ns);
	return io;
}

u64 disk_read_ns(const struct sim_disk *model)
{
	/* The mean root of the way between two random tracks is 8/15. */
	return model->kind == DISK_ROTATES ?
	       SEEK_LEAST_NS + SEEK_MORE_NS * 8 / 15 + TURN_NS / 2 + TRANSFER_NS :
	       model->read_ns;
}
