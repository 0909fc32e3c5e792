#include "answers.h"

#include "print.h"

#include <grail/escape.h>

#include <string.h>

enum { SHOWN = 400 }; /* bytes of an answer with its escapes */

static int count_right(const grail_answers *a)
{
    int right = 0;
    for (int i = 0; i < a->count; i++) {
        right += a->items[i].is_right;
    }
    return right;
}

static bool were_asked(const grail_answers *dense, const grail_answers *result)
{
    return dense->count > 0 && result->count > 0;
}

void answers_print(const grail_answers *dense, const grail_answers *result)
{
    const char *notice = dense->notice[0] != 0 ? dense->notice : result->notice;
    if (notice[0] != 0) {
        print_out("answers: %s\n", notice);
    }
    if (!were_asked(dense, result)) {
        return;
    }
    print_out("answers to %d questions, right: dense %d, result %d\n", dense->count,
              count_right(dense), count_right(result));
    for (int i = 0; i < dense->count; i++) {
        const grail_answer *said[] = {&dense->items[i], &result->items[i]};
        print_out("  %s (%s)\n", said[0]->question, said[0]->expected);
        for (int k = 0; k < 2; k++) {
            print_out("    %-8s %s\n", k == 0 ? "dense" : "result",
                      said[k]->text[0] == 0 ? "(nothing)" : said[k]->text);
        }
    }
}

/* As code between backquotes, which one of its own would end. */
static void put_answer(const char *network, const grail_answer *a, char *text, size_t size)
{
    char line[SHOWN];
    grail_escape(GRAIL_ESCAPE_LINE, a->text[0] == 0 ? "(nothing)" : a->text, line, sizeof line);
    for (char *at = strchr(line, '`'); at != NULL; at = strchr(at, '`')) {
        *at = '\'';
    }
    append_text(text, size, "  - %s: `%s`\n", network, line);
}

void answers_append(const grail_answers *dense, const grail_answers *result, char *text,
                    size_t size)
{
    if (!were_asked(dense, result)) {
        return;
    }
    append_text(text, size,
                "\nAnswers, of which %d of the dense network and %d of this one are "
                "right:\n\n",
                count_right(dense), count_right(result));
    for (int i = 0; i < dense->count; i++) {
        append_text(text, size, "- %s\n", dense->items[i].question);
        put_answer("dense network", &dense->items[i], text, size);
        put_answer("this network", &result->items[i], text, size);
    }
}

json_t *answers_json(const grail_answers *dense, const grail_answers *result)
{
    if (!were_asked(dense, result)) {
        return json_null();
    }
    json_t *list = json_array();
    for (int i = 0; i < dense->count; i++) {
        const grail_answer *before = &dense->items[i];
        const grail_answer *after = &result->items[i];
        json_t *one =
            json_of("question", J(before->question), "expected", J(before->expected), "dense",
                    J(before->text), "dense_right", J((bool)before->is_right), "result",
                    J(after->text), "result_right", J((bool)after->is_right), NULL);
        json_array_append_new(list, one);
    }
    return list;
}
