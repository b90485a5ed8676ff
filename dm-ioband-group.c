// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-ioband: whose is an I/O? From a task, a cgroup or an id to a group.
 */
#include <linux/bio.h>
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/sched.h>

#include "dm-ioband.h"

const struct rhashtable_params ioband_by_id_params = {
	.key_len	= sizeof_field(struct ioband_group, id),
	.key_offset	= offsetof(struct ioband_group, id),
	.head_offset	= offsetof(struct ioband_group, hash),
	.automatic_shrinking = true,
};

/**
 * ioband_group_by_id - find a group by its id
 * @dev: the device
 * @id: the id
 *
 * Context: any; RCU or ioband_mutex keeps the group. Constant time.
 * Return: the group, NULL if there is none.
 */
struct ioband_group *ioband_group_by_id(struct ioband_device *dev, u64 id)
{
	return rhashtable_lookup_fast(&dev->by_id, &id, ioband_by_id_params);
}

/*
 * A kernel thread acts for nobody that could be told from it: not for user 0,
 * in particular.
 */
static bool by_kernel(void)
{
	return current->flags & PF_KTHREAD;
}

static struct ioband_group *find_uid(struct ioband_device *dev, struct bio *bio)
{
	if (by_kernel())
		return NULL;
	return ioband_group_by_id(dev, from_kuid(&init_user_ns, current_uid()));
}

static struct ioband_group *find_gid(struct ioband_device *dev, struct bio *bio)
{
	if (by_kernel())
		return NULL;
	return ioband_group_by_id(dev, from_kgid(&init_user_ns, current_gid()));
}

static struct ioband_group *find_pid(struct ioband_device *dev, struct bio *bio)
{
	if (by_kernel())
		return NULL;
	return ioband_group_by_id(dev, task_tgid_nr(current));
}

static struct ioband_group *find_pgrp(struct ioband_device *dev,
				      struct bio *bio)
{
	if (by_kernel())
		return NULL;
	return ioband_group_by_id(dev, task_pgrp_nr(current));
}

static int parse_number_id(const char *word, u64 *id)
{
	size_t digits = strspn(word, "0123456789");
	u32 n;
	int r;

	if (!digits || word[digits])
		return -EINVAL;
	r = kstrtou32(word, 10, &n);
	if (r)
		return r;
	*id = n;
	return 0;
}

#ifdef CONFIG_CGROUPS

/* The cgroup that a page was charged to; writeback happens on its behalf. */
static struct cgroup *page_cgroup(struct bio *bio)
{
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg;

	if (bio_has_data(bio)) {
		memcg = page_memcg_check(compound_head(bio_page(bio)));
		if (memcg)
			return memcg->css.cgroup;
	}
#endif
	return NULL;
}

/* NULL for the root. */
static struct cgroup *bio_cgroup(struct bio *bio)
{
	if (!by_kernel())
		return task_dfl_cgroup(current);
#ifdef CONFIG_BLK_CGROUP
	{
		/* A thread that works for a cgroup, as that of a loop device. */
		struct cgroup_subsys_state *css = bio_blkcg_css(bio);

		if (css && css != blkcg_root_css)
			return css->cgroup;
	}
#endif
	return page_cgroup(bio);
}

static struct ioband_group *find_above(struct ioband_device *dev,
				       struct cgroup *cgrp, int level)
{
	struct ioband_group *g;

	for (; level >= 0; level--) {
		g = ioband_group_by_id(dev,
				       cgroup_id(cgroup_ancestor(cgrp, level)));
		if (g)
			return g;
	}
	return NULL;
}

static struct ioband_group *find_cgroup(struct ioband_device *dev,
					struct bio *bio)
{
	struct cgroup *cgrp = bio_cgroup(bio);

	if (cgrp)
		return find_above(dev, cgrp, cgrp->level);
#ifdef CONFIG_BLK_CGROUP
	return ioband_group_by_id(dev, cgroup_id(blkcg_root_css->cgroup));
#else
	return NULL;
#endif
}

static int parse_cgroup(const char *word, u64 *id)
{
	struct cgroup *cgrp;

	if (*word == '/') {
		cgrp = cgroup_get_from_path(word);
	} else {
		size_t digits = strspn(word, "0123456789");
		int r;

		if (!digits || word[digits])
			return -EINVAL;
		r = kstrtou64(word, 10, id);
		if (r)
			return r;
		cgrp = cgroup_get_from_id(*id);
	}
	if (IS_ERR_OR_NULL(cgrp))
		return -ENOENT;
	*id = cgroup_id(cgrp);
	cgroup_put(cgrp);
	return 0;
}

/**
 * ioband_group_above - find the group that a cgroup's group is below
 * @dev: the device, whose type is cgroup
 * @id: the cgroup
 *
 * Context: process, under ioband_mutex.
 * Return: the group of the nearest attached ancestor; NULL if there is none, or
 * if the cgroup is gone.
 */
struct ioband_group *ioband_group_above(struct ioband_device *dev, u64 id)
{
	struct cgroup *cgrp = cgroup_get_from_id(id);
	struct ioband_group *g = NULL;

	if (!IS_ERR_OR_NULL(cgrp)) {
		rcu_read_lock();
		g = find_above(dev, cgrp, cgrp->level - 1);
		rcu_read_unlock();
		cgroup_put(cgrp);
	}
	return g;
}

#else

struct ioband_group *ioband_group_above(struct ioband_device *dev, u64 id)
{
	return NULL;
}

#endif /* CONFIG_CGROUPS */

static const struct ioband_type ioband_types[] = {
	{
		.name	= "none",
	}, {
		.name	= "user",
		.alias	= "uid",
		.ids	= "a user number from 0 to 4294967295",
		.find	= find_uid,
		.parse	= parse_number_id,
	}, {
		.name	= "gid",
		.ids	= "a group number from 0 to 4294967295",
		.find	= find_gid,
		.parse	= parse_number_id,
	}, {
		.name	= "pid",
		.ids	= "a process number from 0 to 4294967295",
		.find	= find_pid,
		.parse	= parse_number_id,
	}, {
		.name	= "pgrp",
		.ids	= "a process group number from 0 to 4294967295",
		.find	= find_pgrp,
		.parse	= parse_number_id,
#ifdef CONFIG_CGROUPS
	}, {
		.name	= "cgroup",
		.ids	= "the path or the number of a cgroup v2",
		.tree	= true,
		.find	= find_cgroup,
		.parse	= parse_cgroup,
#endif
	},
};

/**
 * ioband_type_next - walk over the types
 * @t: the one before, NULL to begin
 *
 * Context: any.
 * Return: the next type, NULL after the last.
 */
const struct ioband_type *ioband_type_next(const struct ioband_type *t)
{
	if (!t)
		return ioband_types;
	return ++t < ioband_types + ARRAY_SIZE(ioband_types) ? t : NULL;
}

/**
 * ioband_type_find - find a type by its word in the table line
 * @word: the word
 *
 * Context: any.
 * Return: the type, NULL if there is none of that name.
 */
const struct ioband_type *ioband_type_find(const char *word)
{
	const struct ioband_type *t = NULL;

	while ((t = ioband_type_next(t)))
		if (!strcmp(word, t->name) ||
		    (t->alias && !strcmp(word, t->alias)))
			break;
	return t;
}

/**
 * ioband_group_of - find the group of an I/O
 * @dev: the device
 * @bio: the I/O, with its lower device set
 *
 * Context: the submitter's, under RCU; doesn't sleep.
 * Return: the group.
 */
struct ioband_group *ioband_group_of(struct ioband_device *dev,
				     struct bio *bio)
{
	const struct ioband_type *type = READ_ONCE(dev->type);
	struct ioband_group *g = NULL;

	if (type->find)
		g = type->find(dev, bio);
	return g ?: dev->fallback;
}
