#include "notices.h"

#include "print.h"

void print_notice(const char *path, const char *notice, const char *option)
{
    if (notice != NULL) {
        print_error("grail: note: %s: %s", path, notice);
        print_error(option == NULL ? "\n" : " (%s)\n", option);
    }
}

/* Borrowed from the model; NULL where there is none. */
typedef struct model_notices {
    grail_model_facts facts;
    const char *images;
} model_notices;

static model_notices notices_of(const grail_model *model, bool prepares_images)
{
    model_notices found = {.images = NULL};
    grail_preprocessing images = {0};
    if (grail_model_describe(model, &found.facts) == GRAIL_OK && prepares_images &&
        found.facts.reads_images != 0 && grail_model_preprocessing(model, &images) == GRAIL_OK) {
        found.images = images.notice;
    }
    return found;
}

static void add_notices(const char *const notices[], int count, json_t *list)
{
    for (int i = 0; i < count; i++) {
        if (notices[i] != NULL && notices[i][0] != 0) {
            json_array_append_new(list, json_text(notices[i]));
        }
    }
}

json_t *notices_json(const grail_model *model, bool prepares_images, const char *second,
                     const char *third)
{
    json_t *list = json_array();
    const model_notices found = notices_of(model, prepares_images);
    const char *const single[] = {found.facts.activation_notice, found.images, second, third};
    add_notices(found.facts.notices, found.facts.notice_count, list);
    add_notices(single, sizeof single / sizeof single[0], list);
    return list;
}

void print_notices(const char *path, const grail_model *model, bool prepares_images)
{
    const model_notices found = notices_of(model, prepares_images);
    for (int i = 0; i < found.facts.notice_count; i++) {
        print_notice(path, found.facts.notices[i], NULL);
    }
    print_notice(path, found.facts.activation_notice, "--set");
    print_notice(path, found.images, "--preset");
}

/* Folder number i is compared with output i, whatever its name is. */
static void warn_missing_classes(const char *data, const grail_accuracy *a)
{
    print_error(
        "grail: warning: %s has %lld class folders, the network has %lld classes: folder number i "
        "is scored as class i, which is right only for the first %lld classes; for others put "
        "the images into one folder and their class indices into a file for --labels of grail "
        "eval\n",
        data, (long long)a->data_classes, (long long)a->classes, (long long)a->data_classes);
}

void print_class_warnings(const char *data, const grail_accuracy *a, bool by_csv)
{
    const double few = 0.05; /* of many classes: no network worth narrowing gets so little right */
    const double chance = 1.0 / (double)a->classes;
    if (!by_csv && a->data_classes < a->classes) {
        warn_missing_classes(data, a);
    }
    if (a->class_notice[0] != 0) {
        print_error("grail: warning: %s: %s\n", data, a->class_notice);
    }
    if (a->high < (chance < few ? few : chance)) {
        print_error("grail: warning: %s: the class of only %.1f %% of %lld images is the one that "
                    "the network says, no more than by guessing; do the classes have the network's "
                    "order? %s\n",
                    data, 100.0 * a->top1, (long long)a->images,
                    by_csv ? "--labels gives their indices"
                           : "folders are numbered in the order of their names, or --labels of "
                             "grail eval gives the indices");
    }
}
