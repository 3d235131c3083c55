// Text of unknown origin: what a terminal shows of it, and the name of its encoding.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "core/config/config_toml.h"
#include "core/files/text/json_line.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/text_escape.h"
#include "core/lessons/lesson.h"
#include "core/logs/file_kind.h"
#include "core/logs/follower.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/log_readers.h"
#include "core/logs/tag_map.h"

namespace moescope {
namespace {

using namespace std::string_literals;
namespace fs = std::filesystem;

std::string in_utf16(const std::string& ascii, bool big_endian, bool mark) {
  std::string text;
  if (mark) text = big_endian ? "\xfe\xff" : "\xff\xfe";
  for (const char c : ascii) text += big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return text;
}

template <class Action>
std::string thrown(Action action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Printable, TextStaysAsItIs) {
  for (const char* text : {"", "w1 of layer 3", "\\path\\with\\backslashes", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"})
    EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable_lines("two\nlines\n"), "two\nlines\n");
}

TEST(Printable, ControlsAreWritten) {
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("a\rb\nc\td\be\x7f"), "a\\rb\\nc\\td\\x08e\\x7f");
  EXPECT_EQ(printable("nul\0!"s), "nul\\x00!");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // CSI as a single character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "gpj.exe"),
            "\\u202egpj.exe");
  EXPECT_EQ(printable("\xe2\x81\xa6\xe2\x80\xa8\xef\xbb\xbf"), "\\u2066\\u2028\\ufeff");
  EXPECT_EQ(printable_lines("a\n\x1b[2J\r\n"), "a\n\\x1b[2J\\r\n");
}

TEST(Printable, InvalidUtf8IsWrittenAsBytes) {
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");  // cut off
}

// Whatever the input is, the output holds nothing that moves a cursor.
TEST(Printable, NoByteOfAnyKindComesThrough) {
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (int k = 0; k < 12; ++k) text += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    const std::string shown = printable(text);
    EXPECT_EQ(not_utf8_at(shown), std::string::npos);
    for (std::size_t at = 0; at < shown.size(); ++at) {
      const auto byte = static_cast<unsigned char>(shown[at]);
      EXPECT_FALSE(byte < 0x20 || byte == 0x7f);
      EXPECT_FALSE(byte == 0xc2 && static_cast<unsigned char>(shown[at + 1]) < 0xa0);
    }
  }
}

TEST(Encoding, IsNamed) {
  EXPECT_EQ(encoding_problem("\x1f\x8b\x08"), "is gzip-compressed: gunzip it first");
  EXPECT_EQ(encoding_problem("\x28\xb5\x2f\xfd..."), "is zstd-compressed: unzstd it first");
  EXPECT_EQ(encoding_problem("\xfd"
                             "7zXZ\0\0"s),
            "is xz-compressed: unxz it first");
  EXPECT_EQ(encoding_problem("BZh91AY"), "is bzip2-compressed: bunzip2 it first");
  EXPECT_EQ(encoding_problem("PK\x03\x04"), "is a zip archive: unzip it first");
  for (const bool big_endian : {false, true})
    for (const bool mark : {false, true}) {
      const std::string problem = encoding_problem(in_utf16("{\"step\": 0}", big_endian, mark));
      EXPECT_TRUE(problem.starts_with("is UTF-16 text: iconv -f UTF-16")) << problem;
    }
  EXPECT_TRUE(encoding_problem("\xff\xfe\0\0{\0\0\0"s).starts_with("is UTF-32 text"));
  EXPECT_EQ(encoding_problem("text\0more\0\0"s), "");
  for (const char* text : {"", "{", "{\"step\": 0}", "\xef\xbb\xbf{", "caf\xc3\xa9"})
    EXPECT_EQ(encoding_problem(text), "");
  EXPECT_EQ(text_problem("a = 1\nb = '\xe4'\n"),
            "line 2: byte 0xe4 is not UTF-8 (Latin-1?): iconv -f ISO-8859-1 -t UTF-8 makes it readable");
}

class ForeignFiles : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("moescope_foreign_" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(root_ / name, std::ios::binary) << bytes;
    return (root_ / name).string();
  }
  const std::string log_ = "{\"step\": 0, \"loss\": 2.5}\n{\"step\": 1, \"loss\": 2.25}\n";
  const std::string table_ = "step,layer,expert,count\n0,1,0,5\n0,1,1,3\n";

 private:
  fs::path root_;
};

TEST_F(ForeignFiles, AMarkBeforeUtf8IsNoMistake) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(file_kind(put("marked", mark + log_)), FileKind::training_log);
  EXPECT_EQ(file_kind(put("marked.csv", mark + table_)), FileKind::load_table);
  const Imported log = import_jsonl(put("marked.jsonl", mark + log_), {});
  EXPECT_EQ(log.runs.front()->steps(), (StepRange{0, 1}));
  EXPECT_EQ(log.bad.count(), 0);
  const Imported table = import_table(put("marked.csv", mark + table_), {});
  EXPECT_EQ(table.runs.front()->info().n_experts, 2);
  EXPECT_EQ(table.bad.count(), 0);
  EXPECT_TRUE(load_config(put("marked.toml", mark + "name = 'marked'\n")).problems.empty());
  EXPECT_EQ(load_config(put("marked.toml", mark + "name = 'marked'\n")).config.name, "marked");
  EXPECT_EQ(file_kind(put("lesson.toml", mark + "teaches = 'x'\n")), FileKind::lesson);
}

constexpr const char* kDamagedGzip = ": is gzip-compressed, and damaged or cut off: zcat writes what is left of it";

TEST_F(ForeignFiles, CompressedAndOtherEncodingsAreNamed) {
  const std::string gzip = "\x1f\x8b\x08\0\0\0"s + log_;  // damaged
  for (const char* name : {"log.jsonl", "log.jsonl.gz", "loads.csv", "run.toml", "text"}) {
    const std::string path = put(name, gzip);
    EXPECT_EQ(thrown([&] { file_kind(path); }), path + kDamagedGzip);
    const std::string wide = put(name, std::string("\xff\xfe\0\0{\0\0\0", 8));
    EXPECT_EQ(thrown([&] { file_kind(wide); }), wide + ": is UTF-32 text: iconv -f UTF-32 -t UTF-8 makes it readable");
  }
  const std::string log = put("log.jsonl", gzip);
  EXPECT_EQ(thrown([&] { import_jsonl(log, {}); }), log + kDamagedGzip);
}

TEST_F(ForeignFiles, TomlInOtherEncodingsIsNamed) {
  const std::string gzip = put("a.toml", "\x1f\x8b\x08\0\0"s);
  EXPECT_EQ(load_config(gzip).problems.at(0).text(), gzip + kDamagedGzip);
  EXPECT_EQ(find_lesson(gzip).problems.at(0).text(), gzip + kDamagedGzip);
  ImportOptions with_tags;
  with_tags.tags = gzip;
  EXPECT_EQ(thrown([&] { TagMap::for_log(with_tags, "run.jsonl"); }), gzip + kDamagedGzip);
  const std::string latin = put("b.toml", "seed = 1\nname = \"gr\xfcn\"\n");
  EXPECT_EQ(load_config(latin).problems.at(0).text(),
            latin + ": line 2: byte 0xfc is not UTF-8 (Latin-1?): iconv -f ISO-8859-1 -t UTF-8 makes it readable");
  const std::string wide = put("c.toml", in_utf16("seed = 1\n", false, true));
  EXPECT_TRUE(load_config(wide).problems.empty()) << "UTF-16 is read";
}

TEST_F(ForeignFiles, AFollowedLogSaysWhatItIsAndIsReadOnceItIsText) {
  const std::string path = put("grows.jsonl", "\x1f\x8b\x08\0\0"s);
  const Follower follower(path);
  for (int i = 0; i < 500 && follower.problem().empty(); ++i) usleep(10000);
  EXPECT_EQ(follower.problem(), "is gzip-compressed: gunzip it first");
  put("grows.jsonl", log_);
  for (int i = 0; i < 500 && follower.histories().empty(); ++i) usleep(10000);
  ASSERT_FALSE(follower.histories().empty());
  EXPECT_EQ(follower.problem(), "");
}

TEST(JsonLine, InvalidValuesAreNamed) {
  const auto message_of = [](const std::string& line) { return thrown([&] { JsonLines().parse(line); }); };
  EXPECT_EQ(message_of("NaN"), "not an object");
  for (const char* literal : {"nan", "-inf", "None", "True", "NaN", "1000000000000000000000"})
    EXPECT_EQ(message_of("{\"step\": 0, \"why\": \"nan\\\" inf\", \"loss\": " + std::string(literal) + "}"), "")
        << literal;
  for (const char* text : {"{\"a\": word}", "{\"a\": 1,}", "{1: 2}", "{\"a\": (1, 2)}", "{\"a\": 1} {\"a\": nan}"})
    EXPECT_EQ(message_of(text), "not JSON, or cut off") << text;
  EXPECT_EQ(message_of("{'step': 0}"),
            "not JSON: names are in single quotes, as Python prints them; json.dumps() writes JSON");
  EXPECT_EQ(message_of("{\"name\": \"gr\xfcn\"}"), "not UTF-8 from byte 13 on (Latin-1?), which JSON must be");
  EXPECT_EQ(message_of("{\"a\": \"nan\", "), "not JSON, or cut off");
  EXPECT_EQ(message_of(in_utf16("{\"step\": 0}", false, false)).substr(0, 15), "is UTF-16 text:");
  EXPECT_EQ(message_of("{\"step\": 0, \"loss\": NaN}"), "");
  const auto nested = [](int depth) {
    return "{\"x\": " + std::string(depth - 1, '[') + "1" + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(message_of(nested(64)), "");
  EXPECT_EQ(message_of(nested(65)), "nested more than 64 deep");
  for (const char* text :
       {"{\"a\": \"\\ud800\"}", "{\"a\": \"\\udc00\"}", "{\"a\": 01}", "{\"a\": 1e400}", "{} {}", "{\"a\": 1,}"})
    EXPECT_EQ(message_of(text), "not JSON, or cut off") << text;
}

TEST(JsonLine, OfAKeyThatComesTwiceTheLastOneHolds) {
  JsonLines lines;
  const JsonFields fields = lines.parse("{\"b\": 1, \"a\": 2, \"b\": 3, \"\": 4, \"b\": 5}");
  ASSERT_EQ(std::distance(fields.begin(), fields.end()), 3);
  EXPECT_EQ(to_count(*fields.find("b"), "b", 9), 5);
  EXPECT_EQ(to_count(*fields.find("a"), "a", 9), 2);
  EXPECT_EQ(to_count(*fields.find(""), "", 9), 4);
  EXPECT_FALSE(fields.find("c"));
}

TEST(JsonLine, NumbersBeyond64BitsAndThoseOfPythonAreValues) {
  JsonLines lines;
  const JsonFields fields = lines.parse(
      "{\"large\": 123456789012345678901234567890, \"least\": -99999999999999999999, \"most\": 18446744073709551615,"
      " \"list\": [NaN, -Infinity, Infinity, 1e-400, -0], \"NaN\": \"\\\"Infinity 99999999999999999999\"}");
  const auto number = [&](const char* key) { return fields.find(key)->get_double().value(); };
  EXPECT_EQ(number("large"), 123456789012345678901234567890.0);
  EXPECT_EQ(number("least"), -99999999999999999999.0);
  EXPECT_EQ(number("most"), 18446744073709551615.0);
  const std::vector<float> list = to_floats(*fields.find("list"), "list", 5);
  EXPECT_TRUE(std::isnan(list[0]) && !is_missing(list[0]));
  EXPECT_EQ(list[1], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(list[2], std::numeric_limits<float>::infinity());
  EXPECT_EQ(list[3], 0.0f);
  EXPECT_FALSE(std::signbit(list[4]));
  EXPECT_EQ(to_text(*fields.find("NaN"), "NaN"), "\"Infinity 99999999999999999999");
}

}  // namespace
}  // namespace moescope
