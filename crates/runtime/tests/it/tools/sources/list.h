#ifndef LIST_H
#define LIST_H
/* A list. */
struct list {
    struct list *next;
    int (*compare)(const void *, const void *);
};
typedef int (*visit_fn)(struct list *item);
static inline struct list *list_push(struct list *head, struct list *item)
{
    item->next = head;
    return item;
}
void list_free(struct list *head);
extern int list_count;
#endif
