// SPDX-License-Identifier: GPL-2.0-only
/*
 * A module with bugs, one for each check of the debug kernel: writing a name
 * to /sys/module/plant/parameters/bug makes that bug happen.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>

static DEFINE_MUTEX(plant_first);
static DEFINE_MUTEX(plant_second);
static DEFINE_SPINLOCK(plant_lock);

/* What the compiler can't know, or it would leave the bug out. */
static int plant_big = 40;
static int plant_array[4];
static int plant_sum;

static void plant_lock_order(void)
{
	mutex_lock(&plant_first);
	mutex_lock(&plant_second);
	mutex_unlock(&plant_second);
	mutex_unlock(&plant_first);

	mutex_lock(&plant_second);
	mutex_lock(&plant_first);
	mutex_unlock(&plant_first);
	mutex_unlock(&plant_second);
}

static void plant_sleep(void)
{
	spin_lock(&plant_lock);
	kfree(kmalloc(64, GFP_KERNEL));
	spin_unlock(&plant_lock);
}

static void plant_shift(void)
{
	plant_sum += 1 << READ_ONCE(plant_big);
}

static void plant_bounds(void)
{
	plant_sum += plant_array[READ_ONCE(plant_big) / 10];
}

/* Several, since an address may stay behind on a stack. */
static void plant_leak(void)
{
	int i, *object;

	for (i = 0; i < 32; i++) {
		object = kzalloc(128, GFP_KERNEL | __GFP_NOFAIL);
		WRITE_ONCE(*object, i);
	}
}

struct plant_object {
	struct timer_list timer;
	struct list_head list;
	int value;
};

static struct plant_object *plant_alloc(void)
{
	return kzalloc(sizeof(struct plant_object), GFP_KERNEL | __GFP_NOFAIL);
}

static void plant_timeout(struct timer_list *timer)
{
}

static void plant_timer(void)
{
	struct plant_object *object = plant_alloc();

	timer_setup(&object->timer, plant_timeout, 0);
	mod_timer(&object->timer, jiffies + 3600 * HZ);
	/* The kernel reports the timer and stops it. */
	kfree(object);
}

static void plant_list(void)
{
	struct plant_object *object = plant_alloc();
	LIST_HEAD(head);

	list_add(&object->list, &head);
	list_del(&object->list);
	list_del(&object->list);
	kfree(object);
}

static void plant_after_free(void)
{
	struct plant_object *object = plant_alloc();

	kfree(object);
	plant_sum += READ_ONCE(object->value);
}

static void plant_beyond(void)
{
	int *object = kzalloc(4 * sizeof(int), GFP_KERNEL | __GFP_NOFAIL);

	plant_sum += READ_ONCE(object[READ_ONCE(plant_big) / 10]);
	kfree(object);
}

static const struct {
	const char *name;
	void (*run)(void);
} plant_bugs[] = {
	{ "lock-order", plant_lock_order },
	{ "sleep", plant_sleep },
	{ "shift", plant_shift },
	{ "bounds", plant_bounds },
	{ "leak", plant_leak },
	{ "timer", plant_timer },
	{ "list", plant_list },
	{ "after-free", plant_after_free },
	{ "beyond", plant_beyond },
};

static int plant_set(const char *value, const struct kernel_param *kp)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(plant_bugs); i++)
		if (sysfs_streq(value, plant_bugs[i].name)) {
			pr_info("plant: %s\n", plant_bugs[i].name);
			plant_bugs[i].run();
			return 0;
		}
	return -EINVAL;
}

static const struct kernel_param_ops plant_ops = { .set = plant_set };

module_param_cb(bug, &plant_ops, NULL, 0200);
MODULE_PARM_DESC(bug, "Name of the bug to make happen");

MODULE_DESCRIPTION("Bugs for a test of the debug kernel");
MODULE_LICENSE("GPL");
