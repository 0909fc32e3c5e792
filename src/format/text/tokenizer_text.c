/* UTF-8, and the character classes at which tokenizers split. */
#include "format/text/tokenizer_internal.h"

#include <string.h>
#include <utf8proc.h>

text_span span_of_string(const char *text)
{
    return (text_span){text, strlen(text)};
}

bool span_starts_with(text_span text, text_span prefix)
{
    return text.size >= prefix.size && memcmp(text.bytes, prefix.bytes, prefix.size) == 0;
}

int32_t character_at(text_span text)
{
    utf8proc_int32_t character = -1;
    const size_t size = text.size < 4 ? text.size : 4;
    utf8proc_iterate((const utf8proc_uint8_t *)text.bytes, (utf8proc_ssize_t)size, &character);
    return character;
}

grail_status character_append(buffer *out, int32_t character)
{
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t size = utf8proc_encode_char(character, bytes);
    return buffer_append(out, bytes, (size_t)size);
}

bool character_is_space(int32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

bool character_is_numeric(int32_t character)
{
    const utf8proc_category_t category = utf8proc_category(character);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
           category == UTF8PROC_CATEGORY_NO;
}

bool character_is_punctuation(int32_t c)
{
    const utf8proc_category_t category = utf8proc_category(c);
    const bool ascii = (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
                       (c >= '{' && c <= '~');
    return ascii || (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO);
}

/* Other than BERT's first tokenizer, Hugging Face's knows no C that is not assigned. */
bool character_is_control(int32_t c)
{
    const utf8proc_category_t category = utf8proc_category(c);
    return c == 0xFFFD || (c != '\t' && c != '\n' && c != '\r' &&
                           (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                            category == UTF8PROC_CATEGORY_CO));
}

bool character_is_mark(int32_t character)
{
    return utf8proc_category(character) == UTF8PROC_CATEGORY_MN;
}

/* 2B920 is theirs: Unicode's extension E begins at 2B820. */
bool character_is_ideograph(int32_t c)
{
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
}

/* UTS 18, annex C: Alphabetic, Mark, Decimal_Number, Connector_Punctuation, Join_Control. */
bool character_is_word(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        /* and symbols that count as letters (Other_Alphabetic): circled and squared Latin letters
         */
        return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
               (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
               (c >= 0x1F170 && c <= 0x1F189);
    }
}
