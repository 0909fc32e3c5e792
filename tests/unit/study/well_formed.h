/* Whether markup is what an XML reader would take. */
#ifndef GRAIL_TESTS_STUDY_WELL_FORMED_H
#define GRAIL_TESTS_STUDY_WELL_FORMED_H

/**
 * Fails the test unless elements nest and close, attributes are quoted and hold no '<', every '&'
 * begins an entity, and no control character occurs. HTML's <!doctype>, <meta> and the content of
 * <style> and <script> are allowed for.
 */
void assert_well_formed(const char *text);

/** How often `part` occurs. */
int count_of(const char *text, const char *part);

#endif
