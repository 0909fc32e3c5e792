#include "shared_options.h"

#include "notices.h"
#include "print.h"
#include "process.h"
#include "ranks.h"

#include <grail/machine.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

shared_options asked;

void shared_options_init(void)
{
    asked = (shared_options){.compute = {.backend = "cpu"}};
    grail_compress_options_init(&asked.compress);
    asked.compress.run.precision = "auto";
    grail_plan_options_init(&asked.plan);
    grail_effort_options_init(&asked.effort);
}

bool shared_options_use_torch(void)
{
    const char *backends[] = {asked.compute.backend, asked.compress.run.backend};
    bool uses = false;
    for (size_t i = 0; i < 2; i++) {
        uses = uses || (backends[i] != NULL && strncmp(backends[i], "torch", 5) == 0);
    }
    return uses;
}

static grail_model_options reading(const char *type)
{
    return (grail_model_options){
        .settings = asked.settings.values, .setting_count = asked.settings.count, .type = type};
}

/* "auto" becomes the name of a backend, which is said. `resumed` may be NULL. */
static grail_status choose_backend(const grail_model *model, const grail_comm *comm,
                                   const char *resumed, const char **backend)
{
    grail_backend_choice choice = {.backend = NULL};
    if (*backend == NULL || strcmp(*backend, "auto") != 0) {
        return GRAIL_OK;
    }
    const grail_status status = grail_backend_choose(model, comm, resumed, &choice);
    if (status == GRAIL_OK) {
        *backend = choice.backend;
        if (ranks_is_first()) {
            print_error("grail: note: the backend is %s: %s\n", choice.backend, choice.reason);
        }
    }
    return status;
}

grail_status shared_options_open_model(const char *path, grail_model **out)
{
    const grail_model_options options = reading(NULL);
    const grail_status status = grail_model_open_with(path, &options, out);
    return status == GRAIL_OK
               ? choose_backend(*out, asked.compute.comm, NULL, &asked.compute.backend)
               : status;
}

/* Whether an option that a text names as "--NAME" was given. */
static bool names_given(const char *text)
{
    bool given = false;
    for (const char *at = strstr(text, "--"); at != NULL; at = strstr(at, "--")) {
        char name[32];
        at += 2;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ", "), at);
        given = given || option_given(name);
    }
    return given;
}

int shared_options_check_kind(const char *path, bool reads_images, const char *of_text,
                              const char *of_images)
{
    const char *other = reads_images ? of_text : of_images;
    if (!names_given(other)) {
        return EXIT_OK;
    }
    print_command_error("%s reads %s; %s apply only to %s", path, reads_images ? "images" : "text",
                        other, reads_images ? "text" : "images");
    return EXIT_USAGE;
}

/* PATH or PATH=SHARE; a file whose name looks like that is one. */
static int read_part(const char *given, grail_text_part *out)
{
    char *end = NULL;
    const char *sign = strrchr(given, '=');
    const double share = sign == NULL ? 0.0 : strtod(sign + 1, &end);
    *out = (grail_text_part){.path = given};
    if (sign == NULL || end == sign + 1 || *end != 0 || access(given, F_OK) == 0) {
        return EXIT_OK;
    }
    if (!(share > 0.0 && share <= 1.0)) {
        return print_misuse("--calib takes PATH or PATH=SHARE with a share above 0 and at most 1, "
                            "not '%s'",
                            given);
    }
    out->path = strndup(given, (size_t)(sign - given)); /* for the time of the program */
    out->share = share;
    return EXIT_OK;
}

int shared_options_watch_before(int work, double done)
{
    print_progress(done, "%s: %.0f %%",
                   work == GRAIL_STEP_METRIC ? "measuring the metric of errors"
                                             : "drawing calibration text from the network",
                   100.0 * done);
    return interrupt_came();
}

/* --calib names text or images, whichever the model reads. */
int shared_options_read(void)
{
    int code = EXIT_OK;
    grail_compress_options *o = &asked.compress;
    for (int i = 0; i < asked.calibs.count && code == EXIT_OK; i++) {
        code = read_part(asked.calibs.values[i], &asked.parts[i]);
    }
    if (asked.calibs.count > 0) {
        o->read.text.path = asked.parts[0].path;
        asked.images.path = asked.parts[0].path;
        o->read.images = &asked.images;
    }
    if (asked.calibs.count > 1 || asked.parts[0].share > 0.0) {
        o->read.parts = asked.parts;
        o->read.part_count = asked.calibs.count;
    }
    return code;
}

int shared_options_open(const char **sites)
{
    grail_model_facts facts = {0};
    const grail_model_options options = reading(asked.type);
    const char *path = asked.compress.read.model;
    grail_status status = grail_session_open(path, &options, &asked.compress.read.session);
    if (status == GRAIL_OK) {
        const grail_output_options *o = &asked.compress.output;
        status = choose_backend(grail_session_model(asked.compress.read.session),
                                asked.compress.run.comm, o->resume != 0 ? o->path : NULL,
                                &asked.compress.run.backend);
    }
    if (status == GRAIL_OK) {
        status = grail_model_describe(grail_session_model(asked.compress.read.session), &facts);
    }
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    const bool of_images = facts.reads_images != 0;
    if (of_images && asked.compress.read.part_count > 0) {
        print_command_error("%s reads images; give one --calib, without a share", path);
        return EXIT_USAGE;
    }
    if (sites != NULL) {
        *sites = asked.sites != NULL ? asked.sites : of_images ? "conv,ffn" : "ffn,heads";
    }
    return shared_options_check_kind(
        path, of_images, "--field, --protocol, --context, --window-bos, --gqa and --windows",
        "--preset, --split, --size, --mean, --std, --images, --conv-fit, --stream-score and "
        "--repair");
}

static bool prepares_images(void)
{
    return asked.calibs.count > 0 && asked.images.preset == NULL;
}

void shared_options_print_notices(void)
{
    grail_session *session = asked.compress.read.session;
    print_notices(asked.compress.read.model, grail_session_model(session), prepares_images());
    if (grail_session_notice(session) != NULL && ranks_is_first()) {
        print_error("grail: warning: %s\n", grail_session_notice(session));
    }
}

json_t *shared_options_notices_json(const char *other)
{
    grail_session *session = asked.compress.read.session;
    return notices_json(grail_session_model(session), prepares_images(),
                        grail_session_notice(session), other);
}
