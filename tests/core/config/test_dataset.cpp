#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/config/config_field.h"
#include "core/model/text/dataset.h"
#include "core/model/text/domain_generator.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

std::string domain_text(const char* name, std::size_t bytes) {
  const RandomStream stream(7, "test");
  Draws draws(stream, 0);
  std::string text;
  for (const Domain& domain : generated_domains(Generator::passages))
    if (std::string_view(domain.name) == name)
      while (text.size() < bytes) domain.append_document(text, draws);
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Generator, EveryDocumentIsAsciiAndEndsItsLine) {
  const RandomStream stream(1, "test");
  for (const Domain& domain : generated_domains(Generator::passages))
    for (std::uint64_t i = 0; i < 500; ++i) {
      Draws draws(stream, i);
      std::string text;
      domain.append_document(text, draws);
      ASSERT_GT(text.size(), 1u) << domain.name;
      EXPECT_EQ(text.back(), '\n') << domain.name;
      for (const unsigned char c : text) ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F)) << domain.name;
    }
}

TEST(Generator, DomainsHaveDifferentBytes) {
  std::vector<std::array<double, 256>> shares;
  for (const Domain& domain : generated_domains(Generator::passages)) {
    const std::string text = domain_text(domain.name, 20000);
    std::array<double, 256> share{};
    for (const unsigned char c : text) share[c] += 1.0 / static_cast<double>(text.size());
    shares.push_back(share);
  }
  ASSERT_GE(shares.size(), 8u);
  for (std::size_t a = 0; a < shares.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      double variation = 0;
      for (int c = 0; c < 256; ++c) variation += 0.5 * std::fabs(shares[a][c] - shares[b][c]);
      EXPECT_GT(variation, 0.2) << generated_domains(Generator::passages)[a].name << " and "
                                << generated_domains(Generator::passages)[b].name;
    }
}

TEST(Generator, ResultsAreRight) {
  for (const std::string& line : lines_of(domain_text("arithmetic", 20000))) {
    int a = 0, b = 0, result = 0;
    char op = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%d%c%d=%d", &a, &op, &b, &result), 4) << line;
    const std::map<char, int> results{{'+', a + b}, {'-', a - b}, {'*', a * b}};
    EXPECT_EQ(result, results.at(op)) << line;
  }
}

TEST(Generator, ProgressionsRiseByTheirStep) {
  for (const std::string& line : lines_of(domain_text("counting", 20000))) {
    int step = 0, used = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "by %d:%n", &step, &used), 1) << line;
    std::istringstream numbers(line.substr(static_cast<std::size_t>(used)));
    int previous = 0, value = 0;
    numbers >> previous;
    for (int n = 0; numbers >> value; previous = value, ++n) EXPECT_EQ(value, previous + step) << line;
  }
}

TEST(Generator, BracketsMatch) {
  const std::map<char, char> opener{{')', '('}, {']', '['}, {'}', '{'}, {'>', '<'}};
  for (const std::string& line : lines_of(domain_text("brackets", 20000))) {
    std::string open;
    for (const char c : line) {
      if (!opener.count(c)) {
        open += c;
      } else {
        ASSERT_FALSE(open.empty()) << line;
        EXPECT_EQ(open.back(), opener.at(c)) << line;
        open.pop_back();
      }
    }
    EXPECT_TRUE(open.empty()) << line;
  }
}

TEST(Generator, JsonHoldsItsSchema) {
  for (const std::string& line : lines_of(domain_text("JSON", 20000))) {
    const auto object = nlohmann::json::parse(line);
    EXPECT_TRUE(object.at("id").is_number_integer() && object.at("name").is_string() && object.at("tags").is_array() &&
                object.at("active").is_boolean() && object.at("score").is_number())
        << line;
  }
}

TEST(Generator, GenesAreWholeCodons) {
  for (const std::string& line : lines_of(domain_text("DNA", 20000))) {
    const std::size_t start = line.find("TATAATATG");
    ASSERT_NE(start, std::string::npos) << line;
    EXPECT_EQ((line.size() - start - 9) % 3, 0u) << line;
    EXPECT_EQ(line.find_first_not_of("ACGT"), std::string::npos);
  }
}

// Counts of the successors of each symbol in a text of one language. Every other byte is the letter of the language.
using Followers = std::map<char, std::map<char, int>>;

Followers followers_of(const Domain& language, std::size_t bytes) {
  const RandomStream stream(7, "test");
  Draws draws(stream, 0);
  std::string text;
  while (text.size() < bytes) language.append_document(text, draws);
  Followers followers;
  for (std::size_t i = 0; i + 3 < text.size(); i += 2) {
    EXPECT_EQ(text[i], language.name[0]);
    ++followers[text[i + 1]][text[i + 3]];
  }
  return followers;
}

char likeliest(const std::map<char, int>& counts) {
  return std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; })->first;
}

TEST(Facts, EveryLanguageIsACycleOfItsOwnThroughAllSymbols) {
  std::vector<std::map<char, char>> languages;
  for (const Domain& domain : generated_domains(Generator::facts)) {
    std::map<char, char> next;
    for (const auto& [symbol, counts] : followers_of(domain, 40000)) next[symbol] = likeliest(counts);
    ASSERT_EQ(next.size(), 59u) << domain.name;
    std::string cycle;
    for (char symbol = 'a'; cycle.find(symbol) == std::string::npos; symbol = next.at(symbol)) cycle += symbol;
    EXPECT_EQ(cycle.size(), 59u) << domain.name << " goes round in " << cycle;
    for (const auto& other : languages)
      EXPECT_LT(std::ranges::count_if(next, [&](const auto& fact) { return other.at(fact.first) == fact.second; }), 8)
          << domain.name << ": its facts are those of another language";
    languages.push_back(next);
  }
  EXPECT_EQ(languages.size(), 10u);
}

// One symbol in a hundred is random, one of 59. The entropy of a symbol is that of one outcome with 1 - 0.01 * 58/59
// and 58 outcomes with 0.01/59. The letter before it is certain.
TEST(Facts, HaveTheEntropyThatIsSpokenOf) {
  const double wrong = 0.01 / 59, right = 1 - 58 * wrong;
  const double entropy = -(right * std::log(right) + 58 * wrong * std::log(wrong)) / 2;
  EXPECT_NEAR(entropy, 0.048, 0.0005);
  EXPECT_NE(find_field("data.generator")->help.find("less than 0.048 nats/byte"), std::string::npos);
  int all = 0, random = 0;
  for (const Domain& domain : generated_domains(Generator::facts))
    for (const auto& [symbol, counts] : followers_of(domain, 40000))
      for (const auto& [next, n] : counts) {
        all += n;
        random += next == likeliest(counts) ? 0 : n;
      }
  EXPECT_NEAR(static_cast<double>(random) / all, 58 * wrong, 0.001);
}

TEST(Facts, AreTheSameForEverySeedInTextsOfItsOwn) {
  const auto open = [](std::int64_t seed) {
    return open_dataset({.generator = Generator::facts, .batch = 5, .seq = 64}, seed);
  };
  const auto data = open(3), reopened = open(3), other = open(4);
  EXPECT_EQ(data->domains(), generated_domain_names(Generator::facts));
  EXPECT_EQ(data->batch(17).input, reopened->batch(17).input);
  EXPECT_NE(data->batch(17).input, other->batch(17).input);
  EXPECT_NE(data->batch(17).input, data->batch(18).input);
  // (language, symbol) -> next symbol. Those of both seeds and of the held-out text agree, except for random symbols.
  std::map<std::pair<int, int>, int> facts;
  int told_facts = 0, kept_facts = 0;
  const auto tell = [&](const Batch& batch) {
    for (int row = 0; row < batch.sequences; ++row) {
      const auto* byte = &batch.input[static_cast<std::size_t>(row * batch.length)];
      const int letter = batch.domain[static_cast<std::size_t>(row)] + 'Q', first = byte[0] == letter ? 1 : 0;
      for (int i = first; i + 2 < batch.length; i += 2) {
        const auto [fact, fresh] = facts.try_emplace({letter, byte[i]}, byte[i + 2]);
        told_facts += fresh ? 0 : 1;
        kept_facts += !fresh && fact->second == byte[i + 2] ? 1 : 0;
      }
    }
  };
  for (int step = 0; step < 40; ++step) {
    tell(data->batch(step));
    tell(other->batch(step));
  }
  for (const Batch& batch : data->held_out()) tell(batch);
  EXPECT_EQ(facts.size(), 590u);
  EXPECT_GT(kept_facts, 0.95 * told_facts);
}

TEST(GeneratedDataset, IsAPureFunctionOfSeedAndStep) {
  const DataConfig config{.path = "", .batch = 5, .seq = 64};
  const auto a = open_dataset(config, 3), b = open_dataset(config, 3), other = open_dataset(config, 4);
  const Batch first = a->batch(17);
  a->batch(2);
  EXPECT_EQ(a->batch(17).input, first.input);
  EXPECT_EQ(b->batch(17).input, first.input);
  EXPECT_EQ(b->batch(17).domain, first.domain);
  EXPECT_NE(other->batch(17).input, first.input);
  EXPECT_NE(a->batch(18).input, first.input);
}

// At each position, the rows of a packed batch have the same tokens as those of the plain batch, in another order.
TEST(GeneratedDataset, PacksDocumentsOfUnevenLength) {
  const auto packed = open_dataset({.batch = 5, .seq = 64, .documents = 3}, 3);
  const auto plain = open_dataset({.batch = 5, .seq = 64}, 3);
  std::set<int> lengths;
  for (int step = 0; step < 20; ++step) {
    const Batch a = plain->batch(step), b = packed->batch(step);
    ASSERT_EQ(b.token_domain.size(), 5u * 64u);
    for (std::size_t i = 0; i < 64; ++i) {
      std::multiset<std::array<int, 3>> tokens_a, tokens_b;
      for (std::size_t t = i; t < 5 * 64; t += 64) {
        tokens_a.insert({a.input[t], a.target[t], a.domain_of(t)});
        tokens_b.insert({b.input[t], b.target[t], b.domain_of(t)});
      }
      ASSERT_EQ(tokens_a, tokens_b) << step << ' ' << i;
    }
    // Five sequences have five domains, so that a change of the domain is the start of a document.
    std::vector<int> begins;
    for (int i = 1; i < 64; ++i)
      if (b.domain_of(static_cast<std::size_t>(i)) != b.domain_of(static_cast<std::size_t>(i) - 1)) begins.push_back(i);
    ASSERT_EQ(begins.size(), 2u) << step;
    lengths.insert(begins[0]);
    EXPECT_EQ(packed->batch(step).input, b.input);
  }
  EXPECT_GT(lengths.size(), 10u);
  EXPECT_EQ(packed->held_out()[0].input, plain->held_out()[0].input);
}

// Returns the sequences of all batches.
std::vector<std::vector<std::int32_t>> sequences_of(const std::vector<Batch>& batches) {
  std::vector<std::vector<std::int32_t>> sequences;
  for (const Batch& batch : batches)
    for (auto at = batch.input.begin(); at < batch.input.end(); at += batch.length)
      sequences.emplace_back(at, at + batch.length);
  return sequences;
}

TEST(GeneratedDataset, HoldsOutTheSameTextForEverySeed) {
  const auto open = [](std::int64_t seed) { return open_dataset({.batch = 5, .seq = 64}, seed); };
  const auto held_out = open(1)->held_out();
  ASSERT_EQ(held_out.size(), static_cast<std::size_t>(kHeldOutBatches));
  std::vector<int> domains(generated_domains(Generator::passages).size(), 0);
  for (const Batch& batch : held_out)
    for (const std::int32_t domain : batch.domain) ++domains[static_cast<std::size_t>(domain)];
  EXPECT_EQ(*std::ranges::max_element(domains), *std::ranges::min_element(domains)) << "20 sequences, 10 domains";
  const auto sequences = sequences_of(held_out);
  EXPECT_EQ(sequences_of(open(2)->held_out()), sequences);
  const auto data = open(1);
  for (int step = 0; step < 200; ++step)
    for (const auto& trained : sequences_of({data->batch(step)}))
      EXPECT_EQ(std::ranges::count(sequences, trained), 0) << "step " << step;
}

TEST(GeneratedDataset, TargetIsTheNextByte) {
  const auto data = open_dataset({.path = "", .batch = 3, .seq = 50}, 1);
  const Batch batch = data->batch(0);
  ASSERT_EQ(batch.input.size(), 150u);
  ASSERT_EQ(batch.target.size(), 150u);
  for (int row = 0; row < 3; ++row)
    for (int i = 0; i + 1 < 50; ++i) EXPECT_EQ(batch.target[row * 50 + i], batch.input[row * 50 + i + 1]);
  for (const int token : batch.target) EXPECT_TRUE(token >= 0 && token < 256);
}

TEST(GeneratedDataset, DealsDomainsEvenlyAndInChangingOrder) {
  const auto data = open_dataset({.path = "", .batch = 4, .seq = 16}, 1);
  const auto domains = static_cast<int>(data->domains().size());
  std::vector<int> count(data->domains().size()), order;
  for (int step = 0; step < domains * 5; ++step)
    for (const int domain : data->batch(step).domain) {
      ++count.at(domain);
      order.push_back(domain);
    }
  for (const int n : count) EXPECT_EQ(n, 20);
  const std::vector<int> round1(order.begin(), order.begin() + domains),
      round2(order.begin() + domains, order.begin() + 2 * domains);
  EXPECT_NE(round1, round2);
}

class TextFiles : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("moescope_text_" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << text;
  }
  std::unique_ptr<Dataset> open(const std::string& name, int seq = 16) {
    return open_dataset({.path = (root_ / name).string(), .batch = 8, .seq = seq}, 1);
  }
  std::string failure(const std::string& name, int seq = 16) {
    try {
      open(name, seq);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no failure";
  }
  fs::path root_;
};

TEST_F(TextFiles, FilesAndSubFoldersAreDomains) {
  write("d/beta.txt", std::string(100, 'b'));
  write("d/alpha/1.txt", std::string(50, '1'));
  write("d/alpha/deep/2.txt", std::string(50, '2'));
  write("d/binary", std::string("a\0b", 3) + std::string(100, 'x'));
  write("d/empty", "");
  write("d/tiny", "abc");
  const auto data = open("d");
  EXPECT_EQ(data->domains(), (std::vector<std::string>{"alpha", "beta.txt"}));
  EXPECT_EQ(data->summary(), "4 files, 0.00 MB of text in 2 domains; skipped: 1 binary (" +
                                 (root_ / "d/binary").string() + ": has NUL bytes), 1 too short");
  bool crossed = false;
  for (int step = 0; step < 40; ++step) {
    const Batch batch = data->batch(step);
    for (int row = 0; row < 8; ++row) {
      const auto* first = &batch.input[row * 16];
      EXPECT_EQ(std::count(first, first + 16, 'b') + std::count(first, first + 16, '\n') >= 15, batch.domain[row] == 1);
      crossed |= std::count(first, first + 16, '1') > 0 && std::count(first, first + 16, '2') > 0;
      for (int i = 0; i < 15; ++i) EXPECT_EQ(batch.target[row * 16 + i], first[i + 1]);
    }
  }
  EXPECT_TRUE(crossed) << "a folder's files follow each other";
}

TEST_F(TextFiles, EveryPlaceIsReached) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += static_cast<char>('0' + i);
  write("one.txt", text);
  const auto data = open("one.txt");
  EXPECT_EQ(data->domains(), std::vector<std::string>{"one.txt"});
  std::map<int, int> starts;
  for (int step = 0; step < 100; ++step) {
    const Batch batch = data->batch(step);
    for (int row = 0; row < 8; ++row) ++starts[batch.input[row * 16] - '0'];
  }
  // 41 bytes with the added line feed, of which a sequence needs 17: sequences begin at 0 to 24.
  EXPECT_EQ(starts.begin()->first, 0);
  EXPECT_EQ(starts.rbegin()->first, 24);
  EXPECT_EQ(starts.size(), 25u);
}

// The end of every text is for validation, its front for training.
TEST_F(TextFiles, APartIsHeldOut) {
  write("d/letters", std::string(800, 'a') + std::string(199, 'Z'));
  write("d/short", std::string(20, 's'));  // too short for two sequences: all of it is for training
  const auto open = [&](double share) {
    return open_dataset({.path = (root_ / "d").string(), .batch = 8, .seq = 16, .held_out = share}, 1);
  };
  EXPECT_TRUE(open(0)->held_out().empty());
  const auto data = open(0.2);
  for (int step = 0; step < 100; ++step)
    for (const std::int32_t byte : data->batch(step).target) EXPECT_NE(byte, 'Z');
  const auto held_out = data->held_out();
  ASSERT_EQ(held_out.size(), static_cast<std::size_t>(kHeldOutBatches));
  for (const Batch& batch : held_out)
    for (const std::int32_t byte : batch.input) EXPECT_EQ(byte, 'Z');
  const auto whole = open_dataset({.path = (root_ / "d").string(), .batch = 8, .seq = 16}, 1);
  bool any = false;
  for (int step = 0; step < 100; ++step) any |= std::ranges::count(whole->batch(step).input, 'Z') > 0;
  EXPECT_TRUE(any) << "without a part held out all of it is trained on";
}

TEST_F(TextFiles, ExactlyOneSequenceFits) {
  write("fits", "0123456789abcde\n\n");  // 17 bytes
  EXPECT_EQ(open("fits")->batch(0).target[15], '\n');
  write("short", "0123456789abcde\n");
  EXPECT_EQ(failure("short"), (root_ / "short").string() +
                                  ": the longest text has 16 bytes: expected at least 17 bytes for data.seq = 16");
}

TEST_F(TextFiles, FailuresSayWhatWasFoundAndWhatIsNeeded) {
  EXPECT_NE(failure("nowhere").find("nowhere: "), std::string::npos);
  EXPECT_NE(failure("nowhere").find("expected a text file or a folder of text files"), std::string::npos);
  write("b/only_binary", std::string(500, '\0'));
  EXPECT_NE(failure("b").find("holds no text (skipped: 1 binary (" + (root_ / "b/only_binary").string() +
                              ": has NUL bytes))"),
            std::string::npos)
      << failure("b");
  write("u/utf16", std::string("\xff\xfe", 2) + std::string(500, 'x'));  // no NUL byte
  EXPECT_NE(failure("u").find("utf16: is UTF-16 text"), std::string::npos) << failure("u");
  fs::create_directories(root_ / "hollow");
  EXPECT_NE(failure("hollow").find("holds no text"), std::string::npos);
  EXPECT_NE(failure("../../../dev/zero").find("neither a file nor a folder"), std::string::npos);
}

TEST_F(TextFiles, LinksThatLeadBackAndPipesDoNotHang) {
  write("d/a.txt", std::string(100, 'a'));
  fs::create_directory_symlink(root_ / "d", root_ / "d" / "loop");
  fs::create_symlink(root_ / "d" / "a.txt", root_ / "d" / "link.txt");
  fs::create_symlink(root_ / "gone", root_ / "d" / "dangling");
  ASSERT_EQ(::mkfifo((root_ / "d" / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(open("d")->domains(), (std::vector<std::string>{"a.txt", "link.txt"}));
}

TEST_F(TextFiles, LinksOutOfTheFolderAreLeftOutAndCounted) {
  write("secret", std::string(100, 's'));
  write("d/a.txt", std::string(100, 'a'));
  fs::create_directories(root_ / "d/b");
  fs::create_symlink("../../secret", root_ / "d/b/link.txt");
  EXPECT_EQ(open("d")->domains(), std::vector<std::string>{"a.txt"});
  EXPECT_NE(open("d")->summary().find("skipped: 1 link out of the folder"), std::string::npos) << open("d")->summary();
  fs::create_symlink("secret", root_ / "named");
  EXPECT_EQ(open("named")->domains(), std::vector<std::string>{"named"}) << "the user names the link itself";
}

TEST_F(TextFiles, ReadingThemCanBeGivenUp) {
  for (int i = 0; i < 20; ++i) write("many/" + std::to_string(i) + ".txt", std::string(100, 'a'));
  int calls = 0;
  const DataConfig config{.path = (root_ / "many").string(), .batch = 8, .seq = 16};
  EXPECT_THROW(open_dataset(config, 1, [&] { return ++calls < 5; }), std::runtime_error);
  EXPECT_EQ(calls, 5);
}

TEST_F(TextFiles, UnreadableOnesAreCounted) {
  write("d/a.txt", std::string(100, 'a'));
  write("d/secret", std::string(100, 's'));
  fs::permissions(root_ / "d" / "secret", fs::perms::none);
  if (std::ifstream(root_ / "d" / "secret")) GTEST_SKIP() << "this user may read everything";
  EXPECT_NE(open("d")->summary().find("1 unreadable"), std::string::npos);
}

}  // namespace
}  // namespace moescope
