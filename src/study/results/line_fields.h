/* Numbers of the structures of a line: a table of descriptions writes and reads them. */
#ifndef GRAIL_STUDY_RESULTS_LINE_FIELDS_H
#define GRAIL_STUDY_RESULTS_LINE_FIELDS_H

#include "study/results/line.h"

#include <stddef.h>

typedef enum field_form {
    FORM_COUNT,  /* an integer */
    FORM_EXACT,  /* all digits */
    FORM_ROUNDED /* 6 digits: times and errors are less accurate */
} field_form;

/* A number, which is a double in its structure, with its form and range in the file. */
typedef struct field {
    const char *key;
    size_t offset;
    field_form form;
    double least, most;
} field;

/* No count, number of bytes or time comes near it; sums over all cells stay finite. */
#define LARGEST 1e18

#define MEASURE(member) offsetof(line_measures, member)

/** All NOT_MEASURED. */
line_measures line_not_measured(void);

/** null where it is not finite. */
json_t *field_number(double value, field_form form);

/** Puts the fields of the structure at `from` into the object, up to one without a key; and those
 * that were measured. */
grail_status write_fields(const field *fields, const void *from, json_t *object) GRAIL_MUST_CHECK;
grail_status write_measured(const field *fields, const void *from, json_t *object) GRAIL_MUST_CHECK;
/** The reverse: reads the fields from the object, which may be NULL. Missing ones become
 * NOT_MEASURED. */
grail_status read_fields(const char *where, const json_t *object, const field *fields,
                         void *to) GRAIL_MUST_CHECK;

#endif
