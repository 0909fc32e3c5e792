/* A directory for one test, with the path of one file in it. */
#ifndef GRAIL_TESTS_PLACE_H
#define GRAIL_TESTS_PLACE_H

typedef struct place {
    char *directory;
    char *path; /* of the file, which is not made */
} place;

/** For a test's setup and teardown: *state is a place whose file has this name. */
int support_place_open(void **state, const char *name);
int support_place_close(void **state);

/** A test of a `place *p` whose file has this name. */
#define PLACE_TEST_OF(file, name)                                                                  \
    static int name##_opens(void **state)                                                          \
    {                                                                                              \
        return support_place_open(state, file);                                                    \
    }                                                                                              \
    TEST_GIVEN(place, p, name##_opens, support_place_close, name)

/** The file at `path` holds exactly this text. */
void assert_contents(const char *path, const char *expected);

#endif
