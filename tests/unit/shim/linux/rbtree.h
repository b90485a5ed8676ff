/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ordered trees with the kernel's names. Inside it is a treap, a search tree
 * that is a heap by random ranks: the least code that is balanced (expected
 * O(log n)). Nodes that compare equal stay in the order of insertion, as in
 * the kernel.
 */
#ifndef SHIM_RBTREE_H
#define SHIM_RBTREE_H

#include <linux/types.h>

struct rb_node {
	struct rb_node *parent, *left, *right;
	u32 rank;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
	struct rb_node *rb_leftmost;
};

#define RB_ROOT		((struct rb_root){ NULL })
#define RB_ROOT_CACHED	((struct rb_root_cached){ { NULL }, NULL })

#define RB_CLEAR_NODE(n)	((void)((n)->parent = (n)))
#define RB_EMPTY_NODE(n)	((n)->parent == (n))
#define RB_EMPTY_ROOT(r)	((r)->rb_node == NULL)

#define rb_entry(p, type, member)	container_of(p, type, member)
#define rb_first_cached(r)		((r)->rb_leftmost)

typedef bool shim_rb_less(struct rb_node *a, const struct rb_node *b);

struct rb_node *rb_next(const struct rb_node *n);
struct rb_node *rb_first(const struct rb_root *r);
void shim_rb_insert(struct rb_root *r, struct rb_node *n, shim_rb_less *less);
void rb_erase(struct rb_node *n, struct rb_root *r);

static inline void rb_add_cached(struct rb_node *n, struct rb_root_cached *r,
				 shim_rb_less *less)
{
	if (!r->rb_leftmost || less(n, r->rb_leftmost))
		r->rb_leftmost = n;
	shim_rb_insert(&r->rb_root, n, less);
}

static inline void rb_erase_cached(struct rb_node *n, struct rb_root_cached *r)
{
	if (r->rb_leftmost == n)
		r->rb_leftmost = rb_next(n);
	rb_erase(n, &r->rb_root);
}

#endif /* SHIM_RBTREE_H */
