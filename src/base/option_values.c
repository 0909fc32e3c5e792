#include "base/option_values.h"

grail_status option_about(const char *field, grail_status status)
{
    return status == GRAIL_OK ? GRAIL_OK : error_about(status, field);
}

grail_status option_integer(const char *field, const char *words, int64_t value, int64_t least)
{
    return value >= least
               ? GRAIL_OK
               : error_about(error_set(GRAIL_ERROR_ARGUMENT, "%s is %lld, expected %lld or more",
                                       words, (long long)value, (long long)least),
                             field);
}

grail_status option_flag(const char *field, const char *words, int value)
{
    return value == 0 || value == 1
               ? GRAIL_OK
               : error_about(error_set(GRAIL_ERROR_ARGUMENT, "whether %s is %d, expected 0 or 1",
                                       words, value),
                             field);
}

grail_status option_number(const char *field, const char *words, double value, bool holds,
                           const char *expected)
{
    return holds ? GRAIL_OK
                 : error_about(error_set(GRAIL_ERROR_ARGUMENT, "%s is %g, expected %s", words,
                                         value, expected),
                               field);
}

grail_status option_room(const char *struct_name, const uint64_t *room, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof room[0]; i++) {
        if (room[i] != 0) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "%s has a value in its room, where this version of the library has no "
                             "field; zero the struct before you set its fields, or load the "
                             "version that the program was compiled against",
                             struct_name);
        }
    }
    return GRAIL_OK;
}

grail_status option_given(const char *field, const char *words, const void *value)
{
    return value != NULL
               ? GRAIL_OK
               : error_about(error_set(GRAIL_ERROR_ARGUMENT, "no %s was given", words), field);
}
