// Runs every command of moescope-cli in docs/*.md, one after the other in one folder: first those that train, then
// those that export, then the others. Numbers of steps and seeds are made small, and names of files that a user would
// have are those of files that are written here.
#include <iomanip>

#include "tests/support/cli_fixture.h"

namespace moescope {
namespace {

const fs::path kSource = fs::path(MOESCOPE_TEST_DATA).parent_path();

// Returns the commands in the code blocks of a page, without comments.
std::vector<std::string> commands_in(const fs::path& page) {
  std::vector<std::string> commands;
  std::ifstream file(page);
  bool code = false;
  for (std::string line, whole; std::getline(file, line);) {
    if (line.starts_with("```")) code = !code;
    line = line.substr(0, line.find("  #"));
    whole += line;
    if (whole.ends_with('\\')) {
      whole.back() = ' ';
      continue;
    }
    if (code && whole.find("moescope-cli ") != std::string::npos) commands.push_back(whole);
    whole.clear();
  }
  return commands;
}

// Returns the first code block of a page that begins with `fence`.
std::string block_in(const fs::path& page, const std::string& fence) {
  std::ifstream file(page);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = text.find(fence) + fence.size();
  return text.substr(begin, text.find("```", begin) - begin);
}

// In place of what takes long, and of files that a user has under other names.
struct Replacement {
  const char *from, *to;
};
constexpr Replacement kReplacements[] = {
    {"--steps 500", "--steps 3"},
    {"--steps 300", "--steps 3"},
    {"--steps 200", "--steps 2"},
    {"--seeds 5", "--seeds 1"},
    {"--seeds 3", "--seeds 1"},
    {"--at 400", "--at 2"},
    {"--last 50", "--last 2"},
    {"--preset small", "--config nano.toml"},
    {"--preset convergence-check", "--config many.toml --steps 3"},
    {"--preset nano --compare", "--config nano.toml --steps 3 --compare"},
    {"scan --preset nano", "scan --config nano.toml"},
    {"sweep --preset nano", "sweep --config nano.toml"},
    {"claims -o mine.toml", "claims my-claim.toml -o mine.toml"},
    {"my-claim.toml -o mine.toml", "my-claim.toml -o mine.toml --steps 2 --seeds 1"},
    {"check batch.pt --engine batch.pt", "check batch.json --engine batch.json"},
    {"quantize weights.safetensors", "quantize model/model.safetensors"},
    {"run FOLDER", "run model"},
    {"run BASE --with TUNED", "run model --with model"},
    {"run base --with tuned", "run model --with model"},
    {"run base", "run model"},
    {" < run.jsonl", ""},  // standard input of every command
};

std::vector<std::string> words_of(std::string command) {
  for (const auto& [from, to] : kReplacements)
    if (const std::size_t at = command.find(from); at != std::string::npos)
      command.replace(at, std::string(from).size(), to);
  std::istringstream text(command);
  std::string word;
  while (text >> word && word != "moescope-cli") continue;
  std::vector<std::string> words;
  while (text >> std::quoted(word)) words.push_back(word);  // "Expert load" is one word
  return words;
}

// Commands that write what others read come first.
int order_of(const std::vector<std::string>& words) {
  const bool from_model = std::ranges::find(words, "--from") != words.end();
  if (words[0] == "train" && !from_model) return 0;
  return words[0] == "export" ? 1 : 2;
}

class CliDocs : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    fs::create_directory_symlink(kSource / "assets", path("assets"));
    fs::create_directories(path("texts"));
    for (const std::string name : {"german.txt", "python.txt", "texts/a.txt", "texts/b.txt"})
      write(name, std::string(1000, 'a') + name);
    std::string log;
    for (int step = 0; step <= 2000; ++step)
      log += R"({"step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(5.0 - step * 1e-3) +
             R"(,"tokens_per_expert":[[40,41,39,40,42,38,40,)" + std::to_string(38 + step % 5) + "]]}\n";
    for (const char* name : {"run.jsonl", "twin.jsonl", "new.jsonl", "good1.jsonl", "good2.jsonl"}) write(name, log);
    write("many.toml", read("nano.toml") + "[[compare]]\nseed = 2\n[[compare]]\nrouter.top_k = 1\n");
    write("my-claim.toml", block_in(kSource / "docs/claims.md", "```toml\n"));
    for (const char* name : {"batch.json", "trainer.jsonl", "responses.jsonl"})
      write(name, R"({"rollout_log_probs": [-1, -2], "old_log_probs": [-1, -1]})");
  }
  // Removes the outputs of an earlier command.
  void remove_outputs(const std::vector<std::string>& words) const {
    for (std::size_t i = 0; i + 1 < words.size(); ++i)
      if (words[i] == "-o" || words[i] == "--out" || words[i] == "--table" || words[i] == "--recipes" ||
          words[i].starts_with("--write-")) {
        fs::remove_all(path(words[i + 1]));
        fs::remove_all(fs::path(path(words[i + 1])).replace_extension(".checkpoints"));
      }
  }
};

TEST_F(CliDocs, EveryCommandWorks) {
  std::vector<std::vector<std::string>> commands;
  for (const auto& page : fs::directory_iterator(kSource / "docs"))
    for (const std::string& command : commands_in(page.path()))
      if (!command.starts_with("mpirun") &&
          !command.starts_with("tests/"))  // tests/mpi; scripts get the program's path
        commands.push_back(words_of(command));
  ASSERT_GT(commands.size(), 30u);
  std::ranges::sort(commands);
  std::ranges::stable_sort(commands, {}, order_of);
  for (const std::vector<std::string>& words : commands) {
    const bool needs_window = std::ranges::find(words, "html") != words.end();
    if (needs_window && !fs::exists(MOESCOPE_APP)) continue;  // the window program is not built
    remove_outputs(words);
    const Result result = run(words, [this] {
      ASSERT_EQ(chdir(root_.c_str()), 0);
      dup2(open("run.jsonl", O_RDONLY), STDIN_FILENO);
    });
    std::string line;
    for (const std::string& word : words) line += word + ' ';
    EXPECT_EQ(result.status, 0) << line << '\n' << result.out << result.err;
  }
}

}  // namespace
}  // namespace moescope
