// A headless Chromium, controlled through the DevTools protocol over its pipe: user actions on a page, and the contents
// of the page. Every failure throws std::runtime_error.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace moescope {

class Browser {
 public:
  using Json = nlohmann::json;

  static bool is_there() { return std::system("command -v chromium >/dev/null 2>&1") == 0; }

  // Starts Chromium with its profile in `folder`.
  explicit Browser(const std::filesystem::path& folder) {
    start("--user-data-dir=" + (folder / "profile").string());
    const Json target = call("Target.createTarget", {{"url", "about:blank"}});
    session_ = call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}})["sessionId"];
    call("Page.enable");
    call("Runtime.enable");
  }
  ~Browser() {
    close(to_);
    close(from_);
    kill(pid_, SIGTERM);
    for (int i = 0; i < 50 && waitpid(pid_, nullptr, WNOHANG) == 0; ++i)
      if (i == 49) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  // Opens the page and waits until `ready`, an expression in it, is true.
  void open(const std::filesystem::path& file, int width, int height, bool dark, const std::string& ready) {
    call("Emulation.setDeviceMetricsOverride",
         {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", width < 500}});
    call("Emulation.setEmulatedMedia",
         {{"features", {{{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}}}}});
    problems_.clear();
    evaluate("window.is_left = true");
    call("Page.navigate", {{"url", "file://" + file.string()}});
    wait_for("!window.is_left && " + ready);
  }
  Json evaluate(const std::string& expression) {
    const Json answer =
        call("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
    if (answer.contains("exceptionDetails")) throw std::runtime_error(expression + ": " + answer.dump());
    return answer["result"].value("value", Json());
  }
  void wait_for(const std::string& expression) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (evaluate(expression) != true) {
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("never: " + expression);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  // Presses and releases a key. `name` and `code` are `key` and `code` of KeyboardEvent. A name of one character is
  // also sent as text.
  void press(const std::string& name, const std::string& code, int virtual_key) {
    Json event = {{"key", name}, {"code", code}, {"windowsVirtualKeyCode", virtual_key}, {"type", "rawKeyDown"}};
    if (name.size() == 1) event.update({{"type", "keyDown"}, {"text", name}});
    call("Input.dispatchKeyEvent", event);
    event["type"] = "keyUp";
    event.erase("text");
    call("Input.dispatchKeyEvent", event);
  }
  void move_to(double x, double y) { mouse("mouseMoved", x, y, 0); }
  void click(double x, double y) {
    move_to(x, y);
    mouse("mousePressed", x, y, 1);
    mouse("mouseReleased", x, y, 1);
  }
  const std::vector<std::string>& problems() const { return problems_; }  // uncaught errors of the page since open()

 private:
  static constexpr std::chrono::seconds kPatience{60};

  void start(std::string profile) {
    std::array<int, 2> in{}, out{};
    if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    // Chromium expects its ends of the pipes at descriptors 3 and 4; the copies lie above them.
    const int its_in = fcntl(in[0], F_DUPFD_CLOEXEC, 10), its_out = fcntl(out[1], F_DUPFD_CLOEXEC, 10);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, its_in, 3);
    posix_spawn_file_actions_adddup2(&actions, its_out, 4);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::vector<std::string> words = {"chromium",      "--headless=new",          "--no-sandbox",
                                      "--disable-gpu", "--remote-debugging-pipe", std::move(profile)};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int failed = posix_spawnp(&pid_, "chromium", &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(its_in);
    close(its_out);
    if (failed != 0) throw std::runtime_error("chromium cannot be started");
  }
  void mouse(const char* type, double x, double y, int clicks) {
    call("Input.dispatchMouseEvent",
         {{"type", type}, {"x", x}, {"y", y}, {"button", clicks ? "left" : "none"}, {"clickCount", clicks}});
  }
  Json call(const std::string& method, Json parameters = Json::object()) {
    Json message = {{"id", ++id_}, {"method", method}, {"params", std::move(parameters)}};
    if (!session_.empty()) message["sessionId"] = session_;
    std::string text = message.dump() + '\0';
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = write(to_, text.data() + done, text.size() - done);
      if (n <= 0) throw std::runtime_error(method + ": chromium has ended");
      done += static_cast<std::size_t>(n);
    }
    for (;;) {
      Json answer = Json::parse(next_message(method));
      if (answer.value("method", "") == "Runtime.exceptionThrown") problems_.push_back(answer.dump());
      if (answer.value("id", 0) != id_) continue;
      if (answer.contains("error")) throw std::runtime_error(method + ": " + answer["error"].dump());
      return std::move(answer["result"]);
    }
  }
  std::string next_message(const std::string& method) {
    std::size_t end;
    while ((end = received_.find('\0')) == std::string::npos) {
      pollfd waiting{from_, POLLIN, 0};
      if (poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0)
        throw std::runtime_error(method + ": no answer");
      std::array<char, 65536> part;
      const ssize_t n = read(from_, part.data(), part.size());
      if (n <= 0) throw std::runtime_error(method + ": chromium has ended");
      received_.append(part.data(), static_cast<std::size_t>(n));
    }
    std::string message = received_.substr(0, end);
    received_.erase(0, end + 1);
    return message;
  }

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, id_ = 0;
  std::string session_, received_;
  std::vector<std::string> problems_;
};

}  // namespace moescope
