// Runs the real moescope-cli binary, as a user would, in a temporary folder of the test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace moescope {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct Result {
  int status = -1;  // exit status, or 1000 + signal
  std::string out, err;
};

class Cli : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("moescope_cli_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    write("nano.toml",
          "name = 'n'\n[model]\ndim = 32\nn_layers = 2\ndense_inter = 64\nn_heads = 2\nkv_lora_rank = 16\n"
          "qk_nope_head_dim = 8\nqk_rope_head_dim = 8\nv_head_dim = 16\nn_experts = 4\nmoe_inter = 32\n"
          "[data]\nbatch = 2\nseq = 16\n[parallel]\nranks = 2\n[optimizer]\nwarmup_steps = 5\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string path(const std::string& name) const { return (root_ / name).string(); }
  void write(const std::string& name, const std::string& text) { std::ofstream(path(name), std::ios::binary) << text; }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  // Starts moescope-cli. `prepare` is called in the new process before the program starts; it sets limits, signals or
  // another standard output.
  pid_t start(std::vector<std::string> arguments, const std::function<void()>& prepare = {}) {
    arguments.insert(arguments.begin(), MOESCOPE_CLI);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string out = path("stdout"), err = path("stderr");
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      if (prepare) prepare();
      execv(argv[0], argv.data());
      _exit(127);
    }
    return pid;
  }
  Result finish(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    Result result;
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    result.out = read("stdout");
    result.err = read("stderr");
    fs::remove(path("stdout"));
    fs::remove(path("stderr"));
    return result;
  }
  Result run(std::vector<std::string> arguments, const std::function<void()>& prepare = {}) {
    return finish(start(std::move(arguments), prepare));
  }

  // Returns the arguments that train the nano config of this test, followed by `more`.
  std::vector<std::string> train(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"train", "--config", path("nano.toml")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // Returns the JSON lines of the steps in `text`, one string per step, without times.
  std::vector<std::string> steps_of(const std::string& text) const {
    std::vector<std::string> steps;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::json::parse(line);
      if (!json.contains("step")) continue;  // the line that describes the run
      for (const char* key : {"wall_s", "tokens_per_s", "phase_ms"}) json.erase(key);
      steps.push_back(json.dump());
    }
    return steps;
  }

  std::int64_t wait_for_lines(const std::string& name, std::int64_t lines) const {
    std::int64_t seen_lines = 0;
    for (int i = 0; i < 3000 && seen_lines < lines; ++i) {
      std::this_thread::sleep_for(10ms);
      const std::string text = read(name);
      seen_lines = std::count(text.begin(), text.end(), '\n');
    }
    return seen_lines;
  }

  fs::path root_;
};

}  // namespace moescope
