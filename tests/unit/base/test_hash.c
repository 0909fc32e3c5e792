/* SHA-256 against the examples of FIPS 180-4. */
#include "support/support.h"

#include "base/hash.h"

TEST(test_the_published_examples_are_met)
{
    char text[HASH_TEXT_SIZE];
    hash_bytes("abc", 3, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_bytes("", 0, text);
    assert_string_equal(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(test_pieces_have_the_hash_of_their_whole)
{
    hash_state hash;
    char text[HASH_TEXT_SIZE];
    hash_begin(&hash);
    hash_add(&hash, "a", 1);
    hash_add(&hash, "", 0);
    hash_add(&hash, "bc", 2);
    hash_end(&hash, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
