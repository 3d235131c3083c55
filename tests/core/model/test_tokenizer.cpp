#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/model/tokenizer/tokenizer.h"
#include "tests/support/processor_time.h"
#include "tests/support/says.h"

using namespace moescope;

namespace {

using Ids = std::vector<std::int32_t>;

// Returns a tokenizer file with these parts, each `, "key": value`.
std::string file_with(const std::string& model, const std::string& parts = "") {
  return R"({"version": "1.0", "model": )" + model + parts + "}";
}

std::string bpe(const std::string& vocabulary, const std::string& merges, const std::string& other_keys = "") {
  return R"({"type": "BPE", "vocab": {)" + vocabulary + R"(}, "merges": [)" + merges + "]" + other_keys + "}";
}

const std::string kAbc =
    bpe(R"("a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "bc": 5)", R"(["b", "c"], ["a", "b"], "ab c")");

Tokenizer tokenizer(const std::string& json) {
  return Tokenizer(json, "tokenizer.json");
}

std::string error_of(const std::string& json) {
  try {
    tokenizer(json);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

// The merge of the lowest rank comes first, not that of the longest token: "bc" before "ab".
TEST(Bpe, MergesByRank) {
  EXPECT_EQ(tokenizer(file_with(kAbc)).encode("abcab"), (Ids{0, 5, 3}));
}

TEST(Bpe, TakesAPieceThatIsATokenWhateverTheMergesSay) {
  const std::string whole = bpe(R"("a": 0, "b": 1, "c": 2, "abc": 3)", "", R"(, "ignore_merges": true)");
  EXPECT_EQ(tokenizer(file_with(whole)).encode("abc"), (Ids{3}));
  EXPECT_EQ(tokenizer(file_with(whole)).encode("abca"), (Ids{0, 1, 2, 0}));
}

TEST(Bpe, FallsBackToBytesThenToTheUnknownToken) {
  const std::string model = bpe(R"("<unk>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3)", "",
                                R"(, "unk_token": "<unk>", "byte_fallback": true, "fuse_unk": true)");
  EXPECT_EQ(tokenizer(file_with(model)).encode("a\u00e9zza"), (Ids{1, 2, 3, 0, 1}));
}

TEST(Bpe, UnknownPiecesAreSkippedWithoutUnknownToken) {
  EXPECT_EQ(tokenizer(file_with(kAbc)).encode("a?b"), (Ids{3}));
}

// A word of a million characters must not take the time of merges that each look at the whole word.
TEST(Bpe, MergesLongWordsInTheirOrderOfLength) {
  std::string vocabulary = R"("a": 0)", merges, token = "a";
  for (int id = 1; id <= 10; ++id) {
    merges += (id > 1 ? ", " : "") + std::string("[\"") + token + "\", \"" + token + "\"]";
    token += token;
    vocabulary += ", \"" + token + "\": " + std::to_string(id);
  }
  const double begin = processor_seconds();
  const Ids ids = tokenizer(file_with(bpe(vocabulary, merges))).encode(std::string(1 << 20, 'a'));
  EXPECT_EQ(ids, Ids(1 << 10, 10));
  EXPECT_LT(processor_seconds() - begin, 20);
}

TEST(Unigram, TakesTheBestSumOfScores) {
  const std::string model =
      R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["b", -1], ["c", -1.5], ["ab", -2.5], ["abc", -3]]})";
  const Tokenizer unigram = tokenizer(file_with(model));
  EXPECT_EQ(unigram.encode("ab"), (Ids{1, 2}));
  EXPECT_EQ(unigram.encode("abc"), (Ids{5}));
  EXPECT_EQ(unigram.encode("a??b"), (Ids{1, 0, 2})) << "a run of unknown characters is one token";
}

TEST(Unigram, SaysThatItLacksACharacter) {
  const Tokenizer unigram = tokenizer(file_with(R"({"type": "Unigram", "unk_id": null, "vocab": [["a", 0]]})"));
  try {
    unigram.encode("b");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(),
                 "tokenizer.json: the text has a character that the vocabulary lacks, and unk_id is null");
  }
}

const char* kAdded = R"(, "added_tokens": [{"id": 6, "content": "<s>", "special": true, "lstrip": true},
  {"id": 7, "content": "<s>x", "normalized": false}, {"id": 8, "content": "b", "single_word": true}])";

TEST(AddedTokens, TheLongestIsTakenAndBlanksGoWithIt) {
  const Tokenizer added = tokenizer(file_with(kAbc, kAdded));
  EXPECT_EQ(added.encode("a  <s>bc<s>x"), (Ids{0, 6, 5, 7}));
  EXPECT_EQ(added.end(), 8);
}

TEST(AddedTokens, KeepTheIdOfTheModelsVocabulary) {
  const Tokenizer added = tokenizer(file_with(kAbc, kAdded));
  EXPECT_EQ(added.encode("ab b"), (Ids{3, 1})) << "'b' stands alone only at the end";
}

TEST(Tokenizer, DecodesWithAndWithoutSpecialTokens) {
  const Tokenizer added = tokenizer(file_with(kAbc, kAdded + std::string(R"(, "decoder": {"type": "Fuse"})")));
  const Ids ids = {0, 6, 5, 99};
  EXPECT_EQ(added.decode(ids), "abc");
  EXPECT_EQ(added.decode(ids, SpecialTokenUse::with), "a<s>bc");
}

TEST(Tokenizer, PutsSpecialTokensAroundATextOnRequest) {
  const std::string around = R"(, "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "c", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"c": {"id": "c", "ids": [2, 1], "tokens": ["c", "b"]}}})";
  const Tokenizer with = tokenizer(file_with(kAbc, around));
  EXPECT_EQ(with.encode("a"), (Ids{2, 1, 0}));
  EXPECT_EQ(with.encode("a", SpecialTokenUse::without), (Ids{0}));
}

TEST(Tokenizer, SpellsATokenAndSaysItsBytes) {
  const std::string bytes = bpe(R"("Ġ": 0, "Ã": 1, "Ġt": 2, "t": 3)", R"(["Ġ", "t"])");
  const Tokenizer byte_level = tokenizer(file_with(bytes, R"(, "decoder": {"type": "ByteLevel"})"));
  EXPECT_EQ(byte_level.spelling(2), "Ġt");
  EXPECT_EQ(byte_level.bytes(2), " t");
  EXPECT_EQ(byte_level.bytes(1), "\xc3") << "a part of a character";
  EXPECT_EQ(byte_level.bytes(4), std::nullopt);
}

TEST(Tokenizer, ReadsBytesThatAreNoTextAsTheReplacementCharacter) {
  const Tokenizer replaced = tokenizer(file_with(bpe("\"a\": 0, \"\uFFFD\": 1", "")));
  EXPECT_EQ(replaced.encode("a\xff\xe2\x82"
                            "a"),
            (Ids{0, 1, 1, 0}));
}

TEST(Tokenizer, GivesTheSameIdsToAllThreads) {
  const Tokenizer shared = tokenizer(file_with(kAbc, R"(, "pre_tokenizer": {"type": "WhitespaceSplit"})"));
  std::string text;
  for (int i = 0; i < 5000; ++i) text += i % 3 ? "abc " : "bcab ";
  const Ids expected = shared.encode(text);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (Ids& ids : found) threads.emplace_back([&] { ids = shared.encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

struct BadFile {
  const char* what;
  std::string json, error;  // error: the message after the name of the file
};

TEST(TokenizerFile, SaysWhichKeyIsWrong) {
  const std::string split =
      R"(, "pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "%"}})";
  const auto with_regex = [&](std::string expression) {
    std::string part = split;
    return file_with(kAbc, part.replace(part.find('%'), 1, expression));
  };
  const std::vector<BadFile> files = {
      {"no JSON", "{", "not JSON, or cut off"},
      {"no model", "{}", "model: is missing"},
      {"another model", file_with(R"({"type": "WordPiece"})"),
       "model.type: is 'WordPiece'; supported are BPE, Unigram"},
      {"no vocabulary", file_with(R"({"type": "BPE", "merges": []})"), "model.vocab: is missing"},
      {"an id twice", file_with(bpe(R"("a": 1, "b": 1)", "")), "model.vocab['b']: has id 1, as 'a' has"},
      {"a token twice", file_with(bpe(R"("a": 1, "a": 2)", "")), "model.vocab['a']: is there twice"},
      {"a huge id", file_with(bpe(R"("a": 4000000000)", "")),
       "model.vocab['a']: is not a whole number from 0 to 4194303"},
      {"a negative id", file_with(bpe(R"("a": -1)", "")), "model.vocab['a']: is not a whole number from 0 to 4194303"},
      {"an unknown merge", file_with(bpe(R"("a": 0)", R"(["a", "b"])")),
       "model.merges[0]: 'b' is not in the vocabulary"},
      {"half a merge", file_with(bpe(R"("a": 0)", R"("a")")),
       "model.merges[0]: 'a' is not two tokens with a space between"},
      {"random merges", file_with(bpe("", "", R"(, "dropout": 0.1)")),
       "model.dropout: is not 0: tokens would be drawn at random"},
      {"an unknown id", file_with(R"({"type": "Unigram", "unk_id": 1, "vocab": [["a", 0]]})"),
       "model.unk_id: is not a whole number from 0 to 0"},
      {"no score", file_with(R"({"type": "Unigram", "vocab": [["a"]]})"),
       "model.vocab[0]: is not a token and its score"},
      {"a normalizer",
       file_with(kAbc, R"(, "normalizer": {"type": "Sequence", "normalizers": [{"type": "BertNormalizer"}]})"),
       "normalizer.normalizers[0].type: is 'BertNormalizer'; supported are NFC, NFD, NFKC, NFKD, Lowercase, "
       "StripAccents, "
       "Strip, "
       "Replace, Prepend, ByteLevel, Precompiled, Sequence"},
      {"an expression", with_regex("(a"), "pre_tokenizer.pattern.Regex: U_REGEX_MISMATCHED_PAREN near character 3"},
      {"a repeat", with_regex("a{2,3}+"),
       "pre_tokenizer.pattern.Regex: {2,3}+ is not read here; {0,n}+ and {1,n}+ are"},
      {"a charsmap", file_with(kAbc, R"(, "normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"})"),
       "normalizer.precompiled_charsmap: holds no trie of whole 32-bit units"},
      {"added twice", file_with(kAbc, R"(, "added_tokens": [{"id": 6, "content": "x"}, {"id": 6, "content": "y"}])"),
       "added_tokens[1].id: is that of another added token"},
      {"a template", file_with(kAbc, R"(, "post_processor": {"type": "TemplateProcessing", "single": []})"),
       "post_processor.single: has no place for the text"},
      {"nesting", "{\"model\": " + std::string(100, '[') + std::string(100, ']') + "}", "nested more than 64 deep"},
  };
  for (const BadFile& file : files) EXPECT_EQ(error_of(file.json), "tokenizer.json: " + file.error) << file.what;
}

// (a+)+b takes 2^n steps on a run of n letters a.
TEST(TokenizerFile, StopsExpressionsThatTakeTooLong) {
  const Tokenizer slow = tokenizer(file_with(
      kAbc, R"(, "pre_tokenizer": {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "(a+)+b"}})"));
  EXPECT_EQ(slow.encode("aab"), (Ids{0, 3}));
  try {
    slow.encode(std::string(200, 'a'));
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("tokenizer.json: the regular expression takes too long on this text"), 0u);
  }
}

std::string problem_with(const std::string& json, const std::string& text) {
  const Tokenizer made = tokenizer(json);
  try {
    made.encode(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

std::string repeated(const std::string& item, int times) {
  std::string list = item;
  for (int i = 1; i < times; ++i) list += ", " + item;
  return list;
}

// The product of the steps is limited, not each step.
TEST(Tokenizer, ThirtyStepsThatDoubleTheTextAreAnError) {
  const std::string twice = R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
  const auto normalizer = [&](int times) {
    return R"(, "normalizer": {"type": "Sequence", "normalizers": [)" + repeated(twice, times) + "]}";
  };
  EXPECT_EQ(tokenizer(file_with(kAbc, normalizer(3))).encode("a").size(), 8u);
  EXPECT_EQ(problem_with(file_with(kAbc, normalizer(30)), "aaaa"),
            "tokenizer.json: the steps of the tokenizer make the text more than 64 times longer");
  const std::string bytes = R"(, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)" +
                            repeated(R"({"type": "ByteLevel", "use_regex": false})", 60) + "]}";
  EXPECT_TRUE(says(problem_with(file_with(kAbc, bytes), "\u00e4\u00e4"), "64 times longer"));
  const std::string decoder = R"(, "decoder": {"type": "Sequence", "decoders": [)" + repeated(twice, 40) + "]}";
  EXPECT_THROW(tokenizer(file_with(kAbc, decoder)).decode(Ids{0, 0}), std::runtime_error);
}

TEST(Tokenizer, AnExpressionThatIsSlowOnEveryPieceIsAnError) {
  const std::string slow = R"({"type": "Split", "pattern": {"Regex": "(?:a|a|a){12}b"}, "behavior": "Isolated"})";
  const std::string cut = R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Removed"})";
  const std::string file =
      file_with(kAbc, R"(, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)" + cut + ", " + slow + "]}");
  std::string text = "aaaaaaaaaaaa ";
  EXPECT_EQ(problem_with(file, text), "") << "one piece takes a million steps";
  for (int doublings = 0; doublings < 10; ++doublings) text += text;
  EXPECT_TRUE(says(problem_with(file, text), "too ")) << problem_with(file, text);
}

TEST(Unigram, ManyLongTokensAreAnError) {
  std::string vocabulary = R"(["a", -1])", token = "a";
  for (int i = 1; i < 3000; ++i) vocabulary += R"(, [")" + (token += "a") + R"(", -1])";
  const std::string model = R"({"type": "Unigram", "unk_id": 0, "vocab": [)" + vocabulary + "]}";
  EXPECT_EQ(tokenizer(file_with(model)).encode(std::string(3000, 'a')).size(), 1u);
  EXPECT_EQ(problem_with(file_with(model), std::string(20'000, 'a')),
            "tokenizer.json: the tokenizer takes too many steps on this text");
}

TEST(Tokenizer, ATemplateOfManyTokensIsAnError) {
  const std::string ids = repeated("1", 900);
  const std::string processor = R"(, "post_processor": {"type": "TemplateProcessing", "single": [)" +
                                repeated(R"({"SpecialToken": {"id": "x"}})", 900) +
                                R"(, {"Sequence": {"id": "A"}}], "special_tokens": {"x": {"ids": [)" + ids + "]}}}";
  EXPECT_EQ(error_of(file_with(kAbc, processor)),
            "tokenizer.json: post_processor: adds more than 1000 tokens to a text");
}

}  // namespace
