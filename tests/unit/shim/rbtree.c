// SPDX-License-Identifier: GPL-2.0-only
/* The treap behind shim/linux/rbtree.h. */
#include <linux/rbtree.h>

/* What erased nodes point to: any use of it faults. */
#define POISON	((struct rb_node *)0x200)

static u32 next_rank(void)
{
	static u32 x = 2463534242U;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return x;
}

struct rb_node *rb_first(const struct rb_root *r)
{
	struct rb_node *n = r->rb_node;

	while (n && n->left)
		n = n->left;
	return n;
}

struct rb_node *rb_next(const struct rb_node *n)
{
	if (n->right) {
		n = n->right;
		while (n->left)
			n = n->left;
		return (struct rb_node *)n;
	}
	while (n->parent && n == n->parent->right)
		n = n->parent;
	return n->parent;
}

/* The pointer that leads to @n. */
static struct rb_node **link_to(struct rb_root *r, struct rb_node *n)
{
	if (!n->parent)
		return &r->rb_node;
	return n->parent->left == n ? &n->parent->left : &n->parent->right;
}

/* Turn the tree so that @n takes its parent's place. */
static void raise_node(struct rb_root *r, struct rb_node *n)
{
	struct rb_node *p = n->parent, *inner;

	*link_to(r, p) = n;
	n->parent = p->parent;
	p->parent = n;
	if (p->left == n) {
		inner = n->right;
		n->right = p;
		p->left = inner;
	} else {
		inner = n->left;
		n->left = p;
		p->right = inner;
	}
	if (inner)
		inner->parent = p;
}

void shim_rb_insert(struct rb_root *r, struct rb_node *n, shim_rb_less *less)
{
	struct rb_node **link = &r->rb_node, *parent = NULL;

	while (*link) {
		parent = *link;
		link = less(n, parent) ? &parent->left : &parent->right;
	}
	n->parent = parent;
	n->left = NULL;
	n->right = NULL;
	n->rank = next_rank();
	*link = n;
	while (n->parent && n->parent->rank < n->rank)
		raise_node(r, n);
}

void rb_erase(struct rb_node *n, struct rb_root *r)
{
	while (n->left || n->right) {
		if (!n->right || (n->left && n->left->rank > n->right->rank))
			raise_node(r, n->left);
		else
			raise_node(r, n->right);
	}
	*link_to(r, n) = NULL;
	n->parent = POISON;
	n->left = POISON;
	n->right = POISON;
}
