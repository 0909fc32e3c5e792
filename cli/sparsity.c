#include "sparsity.h"

#include "print.h"
#include "shared_options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void sparsity_list_free(sparsity_list *list)
{
    free(list->text);
    free(list->sites);
    *list = (sparsity_list){0};
}

static bool parse_fraction(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && *end == 0 && *out == *out;
}

static int bad_value(const char *text)
{
    print_error("grail compress: cannot read --sparsity '%s'; give a fraction such as 0.3, or "
                "ffn=0.3,heads=0.2, or SITE=0.5\n",
                text);
    return EXIT_USAGE;
}

static int set_kinds(const char *kinds, double fraction, grail_compress_options *options)
{
    for (const char *kind = kinds;; kind++) {
        char name[32]; /* longer than any kind, so no truncated name is one */
        const size_t length = strcspn(kind, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, kind);
        double *sparsity = grail_compress_sparsity(options, name);
        if (sparsity == NULL) {
            return options_check_word(
                "--sites", WORDS("ffn", "heads", "conv", "stream", "experts", "latent", "values"),
                name);
        }
        *sparsity = fraction;
        kind += length;
        if (*kind == 0) {
            return EXIT_OK;
        }
    }
}

/* `text` is the complete argument, for the message. */
static int set_pair(char *pair, const char *text, grail_compress_options *options,
                    sparsity_list *list)
{
    double fraction = 0.0;
    char *equals = strchr(pair, '=');
    if (equals == NULL || !parse_fraction(equals + 1, &fraction)) {
        return bad_value(text);
    }
    *equals = 0;
    double *sparsity = grail_compress_sparsity(options, pair);
    if (sparsity != NULL && *sparsity != 0.0) {
        print_error("grail compress: --sparsity names '%s' twice\n", pair);
        return EXIT_USAGE;
    }
    if (sparsity != NULL) {
        *sparsity = fraction;
    } else {
        list->sites[list->count++] = (grail_site_sparsity){.site = pair, .sparsity = fraction};
    }
    return EXIT_OK;
}

static size_t count_pairs(const char *text)
{
    size_t pairs = 1;
    for (const char *c = text; *c != 0; c++) {
        pairs += *c == ',' ? 1 : 0;
    }
    return pairs;
}

int sparsity_parse(const char *text, const char *kinds, grail_compress_options *options,
                   sparsity_list *list)
{
    double fraction = 0.0;
    if (parse_fraction(text, &fraction)) {
        return set_kinds(kinds, fraction, options);
    }
    list->text = strdup(text);
    list->sites = calloc(count_pairs(text), sizeof list->sites[0]);
    if (list->text == NULL || list->sites == NULL) {
        print_error("grail compress: out of memory\n");
        return EXIT_FAILED;
    }
    int code = EXIT_OK;
    char *rest = list->text;
    for (char *pair = strsep(&rest, ","); pair != NULL && code == EXIT_OK;
         pair = strsep(&rest, ",")) {
        code = set_pair(pair, text, options, list);
    }
    options->amount.site_sparsities = list->sites;
    options->amount.site_sparsity_count = list->count;
    return code;
}
