#include "notices.h"

#include "print.h"

void print_notice(const char *path, const char *notice, const char *option)
{
    if (notice != NULL) {
        print_error("grail: note: %s: %s", path, notice);
        print_error(option == NULL ? "\n" : " (%s)\n", option);
    }
}

void print_notices(const char *path, const grail_model *model, bool prepares_images)
{
    grail_model_facts facts = {0};
    grail_preprocessing images = {0};
    if (grail_model_describe(model, &facts) != GRAIL_OK) {
        return;
    }
    print_notice(path, facts.activation_notice, "--set");
    if (prepares_images && facts.reads_images != 0 &&
        grail_model_preprocessing(model, &images) == GRAIL_OK) {
        print_notice(path, images.notice, "--preset");
    }
}
