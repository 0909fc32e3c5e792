/* Conversations as the known kinds of chat templates write them, and what is refused. */
#include "tokenizer_fixtures.h"

#include "support/support.h"

#include "format/text/chat.h"

#include <string.h>

#define CHATML                                                                                     \
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}{{ '<|im_start|>system\\n"   \
    "Be kind.<|im_end|>\\n' }}{% endif %}{{ '<|im_start|>' + m.role }}<|im_end|>"
#define LLAMA "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>' }}<|eot_id|>"
#define GEMMA "<start_of_turn>{{ role }}<end_of_turn>"
#define PHI "<|user|>\n{{ m.content }}<|end|>\n<|assistant|>\n{{ eos_token }}"

/* Each is one token; nothing else matters of the words. */
static const char *const marks[] = {
    "<|im_start|>",      "<|im_end|>",    "<|im_sep|>", "<|begin_of_text|>", "<|start_header_id|>",
    "<|end_header_id|>", "<|eot_id|>",    "<bos>",      "<start_of_turn>",   "<end_of_turn>",
    "<|user|>",          "<|assistant|>", "<|end|>",    "<|endoftext|>"};
enum { MARKS = sizeof marks / sizeof marks[0], FIRST_MARK = 96 };

/* Byte-level characters of ASCII are tokens, and the marks from `first` on. */
static tokenizer *open_marks(int first)
{
    OWNED(buffer) model = {.maximum = 1 << 14};
    OWNED(buffer) added = {.maximum = 1 << 14};
    assert_ok(buffer_append_string(
        &model, "\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"\\u0120\":94,\"\\u010a\":95"));
    for (int i = 0; i < 94; i++) {
        assert_ok(buffer_format(&model, ",\"\\u%04x\":%d", (unsigned)('!' + i), i));
    }
    assert_ok(buffer_append_string(&model, "}"));
    assert_ok(buffer_append_string(
        &added, ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                "\"added_tokens\":["));
    for (int i = first; i < MARKS; i++) {
        assert_ok(buffer_format(&added, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true}",
                                i > first ? "," : "", FIRST_MARK + i, marks[i]));
    }
    assert_ok(buffer_append_string(&added, "]"));
    tokenizer *t = must_open_tokenizer((const char *)model.bytes, (const char *)added.bytes);
    return t;
}

typedef struct talk {
    tokenizer *tokenizer;
    const char *template, *conversation;
    const grail_text_source *source;
    bool answers;
    buffer written;
} talk;

static grail_status speak(void *user)
{
    talk *t = user;
    OWNED(chat_writer) *c = NULL;
    OWNED(json_t) *given = NULL;
    OWNED(json_t) *messages = NULL;
    buffer_fini(&t->written);
    buffer_init(&t->written, 1 << 16);
    CHECK(chat_open(t->template, "t.jinja", t->tokenizer, t->source, &c));
    CHECK(json_parse("line", t->conversation, strlen(t->conversation), &given));
    CHECK(chat_read(given, &messages));
    return chat_write(c, messages, t->answers, &t->written);
}

static void expect(const char *template, const char *conversation, const char *expected)
{
    talk t = {.tokenizer = open_marks(0), .template = template, .conversation = conversation};
    assert_ok(speak(&t));
    assert_string_equal((const char *)t.written.bytes, expected);
    buffer_fini(&t.written);
    tokenizer_close(t.tokenizer);
}

static void refuse(const char *template, const char *conversation, grail_status status,
                   const char *expected)
{
    talk t = {.tokenizer = open_marks(0), .template = template, .conversation = conversation};
    assert_fails(speak(&t), status, expected);
    buffer_fini(&t.written);
    tokenizer_close(t.tokenizer);
}

#define ASK "{\"role\":\"user\",\"content\":\" Hi \"}"
#define SAY "{\"role\":\"assistant\",\"content\":\"Yes\"}"
#define SYSTEM "{\"role\":\"system\",\"content\":\"Short.\"}"

TEST(each_known_kind_writes_its_turns)
{
    expect(CHATML, "[" ASK "," SAY "]",
           "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n Hi "
           "<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n");
    expect(CHATML, "[" SYSTEM "," ASK "]",
           "<|im_start|>system\nShort.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n");
    expect("<|im_start|><|im_sep|><|im_end|>", "[" ASK "]",
           "<|im_start|>user<|im_sep|> Hi <|im_end|>");
    expect(LLAMA, "[" SYSTEM "," ASK "," SAY "]",
           "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nShort.<|eot_id|>"
           "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
           "<|start_header_id|>assistant<|end_header_id|>\n\nYes<|eot_id|>");
    expect(GEMMA, "[" SYSTEM "," ASK "," SAY "]",
           "<bos><start_of_turn>user\nShort.\n\nHi<end_of_turn>\n"
           "<start_of_turn>model\nYes<end_of_turn>\n");
    expect(PHI, "[" ASK "," SAY "]",
           "<|user|>\n Hi <|end|>\n<|assistant|>\nYes<|end|>\n<|endoftext|>");
    expect("{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}", "[" ASK "]",
           "<|user|> Hi <|end|>");
}

TEST(speakers_and_parts_are_messages)
{
    static const char *const talks[] = {
        "[{\"from\":\"human\",\"value\":\"Hi\"},{\"from\":\"gpt\",\"value\":\"Yes\"}]",
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hi\"}]}," SAY "]"};
    for (int i = 0; i < 2; i++) {
        expect(
            GEMMA, talks[i],
            "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYes<end_of_turn>\n");
    }
}

TEST(what_only_the_template_says_is_refused)
{
    const char *talk_of = "[" ASK "]";
    refuse("{{ hostile", talk_of, GRAIL_ERROR_UNSUPPORTED, "no kind that is known");
    refuse("", talk_of, GRAIL_ERROR_UNSUPPORTED, "apply_chat_template");
    refuse(CHATML "<think>", talk_of, GRAIL_ERROR_UNSUPPORTED, "more than its turns");
    refuse("<|im_start|>system\nYou\\'re<|im_end|>", talk_of, GRAIL_ERROR_UNSUPPORTED,
           "more than its turns");
    refuse(CHATML, "[{\"role\":\"tool\",\"content\":\"a\"}]", GRAIL_ERROR_UNSUPPORTED,
           "another role than system, user and assistant: tool");
    refuse(CHATML, "[" ASK "," SYSTEM "]", GRAIL_ERROR_UNSUPPORTED, "not the first one");
    refuse(CHATML, "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]",
           GRAIL_ERROR_UNSUPPORTED, "no text");
    refuse(CHATML, "[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":[{}]}]",
           GRAIL_ERROR_UNSUPPORTED, "calls of tools");
    refuse(GEMMA "System role not supported", "[" SYSTEM "," ASK "]", GRAIL_ERROR_FORMAT,
           "which the chat template (t.jinja) refuses");
    refuse(GEMMA, "[" ASK "," ASK "]", GRAIL_ERROR_FORMAT, "do not alternate");
}

TEST(what_is_no_conversation_is_refused)
{
    refuse(CHATML, "[]", GRAIL_ERROR_FORMAT, "without a message; leave the line out");
    refuse(CHATML, "[{}]", GRAIL_ERROR_FORMAT, "entry 1 is no message");
    refuse(CHATML, "[" ASK ",3]", GRAIL_ERROR_FORMAT, "entry 2 is no message");
    refuse(CHATML, "[{\"from\":\"human\",\"value\":4}]", GRAIL_ERROR_FORMAT, "no message");
    refuse(CHATML, "[{\"role\":\"user\",\"content\":null}]", GRAIL_ERROR_FORMAT, "is no text");
}

/* A template of a kind whose marks are no tokens of the model is of no known kind. */
TEST(marks_are_tokens)
{
    talk t = {.tokenizer = open_marks(1), .template = CHATML, .conversation = "[" ASK "]"};
    assert_fails(speak(&t), GRAIL_ERROR_UNSUPPORTED, "no kind that is known");
    buffer_fini(&t.written);
    tokenizer_close(t.tokenizer);
}

static int render(void *user, const char *messages, int answers, const char **text)
{
    const int *returns = user;
    assert_non_null(strstr(messages, "\"content\""));
    *text = *returns == 1 ? "no such role" : answers != 0 ? "Q Hi A" : "rendered";
    return *returns;
}

TEST(who_runs_templates_goes_first)
{
    int returns = 0;
    const grail_text_source source = {.renderer = render, .renderer_user = &returns};
    talk t = {.tokenizer = open_marks(0),
              .template = "{{ unknown }}",
              .conversation = "[" ASK "]",
              .source = &source};
    assert_ok(speak(&t));
    assert_string_equal((const char *)t.written.bytes, "rendered");
    returns = 1;
    assert_fails(speak(&t), GRAIL_ERROR_FORMAT, "refused by the chat template (t.jinja): no such");
    returns = 2;
    assert_fails(speak(&t), GRAIL_ERROR_UNSUPPORTED, "no kind that is known");
    t.template = GEMMA;
    assert_ok(speak(&t));
    assert_non_null(strstr((const char *)t.written.bytes, "<start_of_turn>"));
    buffer_fini(&t.written);
    tokenizer_close(t.tokenizer);
}

static bool find_turns(const char *template, const grail_text_source *source, int64_t counts[3])
{
    OWNED(tokenizer) *t = open_marks(0);
    chat_turns turns;
    bool known = false;
    OPENED(chat_writer, c, chat_open(template, "t.jinja", t, source, &c));
    assert_ok(chat_turns_find(c, &turns, &known));
    counts[0] = turns.begin.count;
    counts[1] = turns.between.count;
    counts[2] = turns.after.count;
    chat_turns_fini(&turns);
    return known;
}

/* "user\n" is five tokens here, "model\n" six, and "system\nBe kind.", with its marks, 17. */
TEST(turns_stand_around_question_and_answer)
{
    int64_t counts[3];
    int returns = 0;
    const grail_text_source source = {.renderer = render, .renderer_user = &returns};
    assert_true(find_turns(GEMMA, NULL, counts));
    assert_int_equal(counts[0], 2 + 5);
    assert_int_equal(counts[1], 3 + 6);
    assert_int_equal(counts[2], 2);
    assert_true(find_turns(CHATML "<think>", NULL, counts)); /* turns alone are drawn */
    assert_int_equal(counts[0], 18 + 1 + 5);
    assert_false(find_turns("{{ unknown }}", NULL, counts));
    assert_int_equal(counts[0] + counts[1] + counts[2], 0);
    assert_false(find_turns(GEMMA, &source, counts)); /* it changes what is said */
}

TEST(every_failing_allocation_is_survived)
{
    talk t = {.tokenizer = open_marks(0), .template = CHATML, .conversation = "[" ASK "," SAY "]"};
    support_fail_each_allocation(speak, &t);
    buffer_fini(&t.written);
    tokenizer_close(t.tokenizer);
}
