// Files that are made to do harm, and incomplete files: every reader refuses them, or reports what is missing.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/cluster/hardware.h"
#include "core/config/config_check.h"
#include "core/config/config_toml.h"
#include "core/files/tensors/safetensors.h"
#include "core/files/text/json_text.h"
#include "core/files/text/toml_section.h"
#include "core/findings/comparison/same_settings.h"
#include "core/lessons/lesson.h"
#include "core/logs/file_kind.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/log_readers.h"
#include "core/logs/open_runs.h"
#include "core/logs/tag_map.h"
#include "core/recording/frame_sink.h"
#include "core/recording/marks.h"
#include "core/recording/recording.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/engine/retrain.h"
#include "tests/support/processor_time.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

std::string nested(const std::string& open, const std::string& inside, const std::string& close, int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += inside;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

std::string dotted(int parts) {
  std::string key = "a";
  for (int i = 1; i < parts; ++i) key += ".a";
  return key;
}

std::string words_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class HostileFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override {
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string safetensors(const std::string& header, std::size_t data_bytes = 0) const {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
    return file("x.safetensors", bytes + header + std::string(data_bytes, '\0'));
  }
  std::string recording(int steps = 5, const std::string& name = "r.moescope") const {
    std::mt19937 rng(1);
    RecordingWriter writer(path(name));
    writer.add_run(sample_info({}));
    std::vector<std::shared_ptr<const TelemetryFrame>> frames;
    for (int step = 0; step < steps; ++step)
      frames.push_back(std::make_shared<const TelemetryFrame>(sample_frame(step, {}, rng)));
    writer.write(frames);
    return path(name);
  }
  // Changes a recording by SQLite itself, because the program's own connections refuse much of this.
  static void change(const std::string& recording, const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(recording.c_str(), &db), SQLITE_OK);
    char* sqlite_error = nullptr;
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &sqlite_error), SQLITE_OK)
        << (sqlite_error ? sqlite_error : "");
    sqlite3_free(sqlite_error);
    sqlite3_close(db);
  }
  static std::string failure(const std::string& recording) {
    return words_of([&] {
      const RecordingReader reader(recording);
      for (const RunInfo& run : reader.runs()) reader.load(run.run);
    });
  }
  // The last step that a killed process had recorded, and the time at which it recorded it.
  struct Killed {
    std::int64_t step = -1;
    double at_s = 0;
  };
  static double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  static Killed record_and_be_killed(const std::string& recording, double lives_s) {
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(fds[0]);
      std::mt19937 rng(3);
      FrameSink sink(recording);
      sink.add_run(sample_info({}));
      Killed written;
      for (written.step = 0;; ++written.step) {
        TelemetryFrame frame = sample_frame(written.step, {}, rng);
        written.at_s = frame.wall_s = now_s();
        sink.publish(std::move(frame));
        sink.flush();
        if (write(fds[1], &written, sizeof written) != sizeof written) _exit(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    close(fds[1]);
    Killed last;
    const double start = now_s();
    for (Killed next; now_s() - start < lives_s && read(fds[0], &next, sizeof next) == sizeof next;) last = next;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (Killed next; read(fds[0], &next, sizeof next) == sizeof next;) last = next;
    close(fds[0]);
    return last;
  }

  fs::path folder_ = fs::temp_directory_path() / ("moescope_hostile_" + std::to_string(::getpid()));
};

TEST(JsonErrors, HaveNoNumbersOfTheLibrary) {
  EXPECT_EQ(without_json_error_numbers("[json.exception.parse_error.101] parse error at line 1"),
            "parse error at line 1");
  EXPECT_EQ(without_json_error_numbers("a.json: [json.exception.type_error.302] type; [json.exception.x.1] again"),
            "a.json: type; again");
  EXPECT_EQ(without_json_error_numbers("[json.exception.cut"), "cut");
  EXPECT_EQ(without_json_error_numbers("none"), "none");
}

// The parts of a key count as levels. Dots in strings and comments, points of numbers and the number of keys do not.
TEST(TomlText, LongKeysAreToldFromOtherDots) {
  const auto fits = [](const std::string& text) {
    try {
      parse_toml(text, "f.toml");
      return true;
    } catch (const toml::parse_error& error) {
      EXPECT_EQ(error.description(), "a key of more than 16 parts") << text;
      return false;
    }
  };
  EXPECT_TRUE(fits(dotted(16) + " = 1\n"));
  EXPECT_FALSE(fits(dotted(17) + " = 1\n"));
  EXPECT_FALSE(fits("[" + dotted(17) + "]\n"));
  EXPECT_FALSE(fits("a = {" + dotted(17) + " = 1}\n"));
  EXPECT_FALSE(fits("a = ''''x'''\n" + dotted(100) + " = 1")) << "a quote that belongs to the string";
  const std::string dots(1000, '.');
  EXPECT_TRUE(fits("a = '" + dots + "' # " + dots + "\nb = \"\\\"" + dots + "\""));
  EXPECT_TRUE(fits("a = \"\"\"\n\\\"\"\" " + dots + "\"\"\"\"\"\nb = '''" + dots + "'''''\n"));
  std::string numbers = "a = [", keys;
  for (int i = 0; i < 1000; ++i) numbers += "\n  1.5,";
  EXPECT_TRUE(fits(numbers + "]\n")) << "points of numbers";
  for (int i = 0; i < 1000; ++i) keys += "[a" + std::to_string(i) + ".b]\nc.d = 1\n[[e.f]]\n";
  EXPECT_TRUE(fits(keys)) << "one after the other";
}

TEST_F(HostileFiles, DeepJsonIsRefusedByEveryReader) {
  const int depth = 100000;
  for (const std::string& header :
       {nested("[", "", "]", depth), nested("[", "", "", depth),
        "{\"__metadata__\":" + nested("{\"a\":", "1", "}", depth) + "}",
        "{\"t\":{\"dtype\":\"F32\",\"shape\":" + nested("[", "", "]", depth) + ",\"data_offsets\":[0,0]}}",
        "{\"t\":" + nested("{\"a\":", "1", "}", depth) + "}"}) {
    const std::string x = safetensors(header);
    const std::string words = words_of([&] { SafetensorsFile{x}; });
    EXPECT_TRUE(has(words, header.starts_with('[') ? "allowed: a JSON object"
                                                   : ": header is not valid JSON of tensors: nested more than 64 deep"))
        << words;
  }
  LogReader log("log.jsonl");
  log.read_line("{\"step\": 1, \"x\": " + nested("[", "", "]", depth) + "}");
  ASSERT_EQ(log.bad().count(), 1);
  EXPECT_EQ(log.bad().first()[0].reason, "nested more than 64 deep");

  for (const char* column : {"moe_layers", "domains"}) {
    const std::string deep = recording();
    change(deep, std::string("UPDATE run SET ") + column + " = '" + nested("[", "", "]", 150000) + "'");
    EXPECT_TRUE(has(failure(deep), std::string(column) + " is not")) << failure(deep);
  }
  History history(sample_info({}), 1 << 20);
  history.append(Marker{0, 0, kSettingsMarker, nested("{\"a\":", "1", "}", 150000)});
  EXPECT_TRUE(history.settings_at_start()->log().empty());
}

TEST_F(HostileFiles, BracketsInALoggedTextAreNoNesting) {
  LogReader log("log.jsonl");
  log.read_line("{\"step\": 0, \"ce_loss\": 1.5, \"comment\": \"" + std::string(200, '[') + "\"}");
  log.finish_step();
  EXPECT_EQ(log.bad().count(), 0) << log.bad().text();
}

TEST_F(HostileFiles, DeepTomlIsRefusedByEveryReader) {
  const std::string key = "a key of more than 16 parts", value = "nested more than 256 deep";
  for (const auto& [deep, reason] :
       {std::pair("# a key\n" + dotted(60000) + " = 1\n", key), std::pair("\n[" + dotted(60000) + "]\n", key),
        std::pair("\na = " + nested("{a = ", "1", "}", 60000), value),
        std::pair("\na = " + nested("[", "", "]", 60000), value)}) {
    const ParsedConfig config = parse_config(deep, "deep.toml");
    ASSERT_EQ(config.problems.size(), 1u);
    EXPECT_EQ(config.problems[0].text(), "deep.toml:2: not TOML: " + reason);
    const ParsedLesson lesson = parse_lesson(deep, "deep.toml");
    ASSERT_FALSE(lesson.problems.empty());
    EXPECT_EQ(lesson.problems[0].text(), "deep.toml:2: not TOML: " + reason);
    EXPECT_EQ(words_of([&] { TagMap::parse(deep, "tags.toml"); }), "tags.toml:2: not TOML: " + reason);
    EXPECT_EQ(words_of([&] { parse_hardware(deep, "h.toml"); }), "h.toml:2: not TOML: " + reason);
    RunInfo info = sample_info({});
    info.config_toml = deep;
    EXPECT_TRUE(has(words_of([&] { recorded_config(info); }), reason)) << "of a recording";
  }
}

// Views that never end, code, and what SQLite would run by itself are detected before any table is read.
TEST_F(HostileFiles, TablesOfARecordingAreTables) {
  const std::string endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id FROM c";
  for (const char* table : {"run", "frame", "router", "router_rounding", "marker", "wire"}) {
    const std::string view = recording();
    change(view, std::string("DROP TABLE ") + table + "; CREATE VIEW " + table + " AS " + endless);
    EXPECT_EQ(failure(view), view + ": damaged: " + table + " is of type view, expected table");
  }
  const std::string computed = recording();
  change(computed, "ALTER TABLE frame ADD COLUMN more AS (hex(zeroblob(50000000)))");
  EXPECT_TRUE(has(failure(computed), "table frame has a computed column")) << failure(computed);
  const std::string code = recording();
  change(code, "DROP TABLE frame; CREATE VIRTUAL TABLE frame USING fts5(id, run, step)");
  EXPECT_TRUE(has(failure(code), "frame is of type virtual table")) << failure(code);
}

TEST_F(HostileFiles, NotesFireNoTrigger) {
  const std::string armed = recording();
  change(armed, "CREATE TRIGGER t AFTER INSERT ON marker BEGIN DELETE FROM frame; END");
  write_marker(armed, {0, 2, kNoteKind, "mine"});
  const auto history = RecordingReader(armed).load(0);
  EXPECT_EQ(history->steps().last, 4);
  EXPECT_EQ(note_at(*history, 2), "mine");
}

TEST_F(HostileFiles, RunsAndNamesHaveALargestNumberAndSize) {
  const std::string crowded = recording();
  change(crowded,
         "INSERT INTO run SELECT value, name, source, config_toml, n_layers, moe_layers, n_experts, top_k, "
         "tokens_per_step, ranks, ranks_per_node, dim, window, domains, kernels FROM run, (WITH RECURSIVE c(value) AS "
         "(SELECT 1 "
         "UNION ALL SELECT value + 1 FROM c WHERE value < 100000) SELECT value FROM c)");
  EXPECT_EQ(failure(crowded), crowded + ": damaged: holds more than 256 runs");
  const std::string five = recording();
  change(five,
         "INSERT INTO run SELECT value, name, source, config_toml, n_layers, moe_layers, n_experts, top_k, "
         "tokens_per_step, ranks, ranks_per_node, dim, window, domains, kernels FROM run, (WITH RECURSIVE c(value) AS "
         "(SELECT 1 "
         "UNION ALL SELECT value + 1 FROM c WHERE value < 9) SELECT value FROM c)");
  int loaded = 0;
  ImportOptions options;
  options.progress = [&](double share) {
    loaded += share > 0;
    return true;
  };
  EXPECT_TRUE(has(words_of([&] { open_runs({five}, options, 4); }), "10 runs together; at most 4"));
  EXPECT_EQ(loaded, 0) << "refused before any is loaded";

  const std::string name = recording();
  change(name, "UPDATE run SET name = replace(hex(zeroblob(5000)), '00', 'x')");
  EXPECT_TRUE(has(failure(name), "run 0: name has 5000 bytes, expected at most 4096")) << failure(name);
  change(name, "UPDATE run SET name = replace(hex(zeroblob(20000000)), '00', 'x')");
  EXPECT_TRUE(has(failure(name), "longer than 2097152 bytes")) << failure(name);
  LogReader log("log.jsonl");
  log.read_line("{\"name\": \"" + std::string(5000, 'x') + "\", \"experts\": 4}");
  EXPECT_EQ(log.bad().count(), 1);
}

// A statement that skips the rows of other runs returns no row for long: it can be cancelled while it runs.
TEST_F(HostileFiles, LoadingIsCancelledWithinAStatement) {
  const std::string long_way = recording();
  change(long_way,
         "DELETE FROM frame; INSERT INTO frame (id, run, step) WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 "
         "FROM c WHERE x < 400000) SELECT x, 7, x FROM c");
  int calls = 0;
  EXPECT_EQ(RecordingReader(long_way).load(0, [&](double) { return ++calls < 3; }), nullptr);
  EXPECT_EQ(calls, 3);
  calls = 0;
  ImportOptions options;
  options.progress = [&](double) { return ++calls < 3; };
  EXPECT_TRUE(open_runs({long_way}, options, 4).histories.empty());
}

// Opening a pipe waits for a writer that never comes.
TEST_F(HostileFiles, PipesDevicesAndFoldersAreRefusedByEveryReader) {
  using Reader = std::pair<std::string, std::function<void(const std::string&)>>;
  const auto problems = [](const std::vector<ConfigProblem>& found) {
    if (!found.empty()) throw std::runtime_error(found.front().text());
  };
  const std::vector<Reader> readers = {
      {"x.moescope", [](const std::string& p) { RecordingReader{p}; }},
      {"n.moescope",
       [](const std::string& p) {
         write_marker(p, {0, 0, kNoteKind, "x"});
       }},
      {"x.safetensors", [](const std::string& p) { SafetensorsFile{p}; }},
      {"x.jsonl", [](const std::string& p) { import_jsonl(p, {}); }},
      {"x.csv", [](const std::string& p) { import_table(p, {}); }},
      {"x.tfevents", [](const std::string& p) { import_events(p, {}); }},
      {"x.toml", [&](const std::string& p) { problems(load_config(p).problems); }},
      {"l.toml", [&](const std::string& p) { problems(find_lesson(p).problems); }},
      {"t.toml",
       [](const std::string& p) {
         ImportOptions options;
         options.tags = p;
         TagMap::for_log(options, "run.jsonl");
       }},
      {"h.toml", [](const std::string& p) { hardware_profile(p); }},
      {"x", [](const std::string& p) { file_kind(p); }},
  };
  for (const auto& reader : readers) {
    const auto& [name, read] = reader;
    const std::string pipe = path(name);
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // ends a reader that waits
      _exit(has(words_of([&, &read = reader.second] { read(pipe); }), "is a named pipe (FIFO), expected a file") ? 0
                                                                                                                 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << name << (WIFSIGNALED(status) ? " waits for ever" : ": wrong words");
  }
  ASSERT_EQ(mkfifo(path("w.moescope").c_str(), 0600), 0);
  EXPECT_TRUE(has(words_of([&] { RecordingWriter{path("w.moescope")}; }), "a pipe or a socket, expected a file"));
  EXPECT_EQ(words_of([] { SafetensorsFile{"/dev/zero"}; }), "/dev/zero: is a device, expected a file");
  EXPECT_EQ(words_of([] { import_jsonl("/dev/zero", {}); }), "/dev/zero: is a device, expected a file");
  EXPECT_TRUE(has(words_of([&] { import_jsonl(folder_, {}); }), "is a directory, expected a file"));
  const std::string checkpoints = path("k");
  fs::create_directories(checkpoints + "/3");
  file("k/3/a.safetensors", "x");
  ASSERT_EQ(mkfifo((checkpoints + "/3/runs.txt").c_str(), 0600), 0);
  EXPECT_TRUE(has(words_of([&] { newest_checkpoint(checkpoints); }), "is a named pipe"));
}

TEST_F(HostileFiles, ReadingLeavesNoTrace) {
  const std::string clean = recording();
  const auto bytes = [&] {
    std::ifstream in(clean, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string before = bytes();
  const auto written = fs::last_write_time(clean);
  {
    const RecordingReader reader(clean);
    EXPECT_EQ(reader.load(0)->steps().last, 4);
    EXPECT_EQ(reader.missing(), "");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "while it is open";
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  EXPECT_EQ(bytes(), before);
  EXPECT_EQ(fs::last_write_time(clean), written);
}

TEST_F(HostileFiles, LaterWritesToAClosedRecordingAreSeen) {
  const std::string closed = recording();
  const RecordingReader reader(closed);
  const auto history = reader.load(0);
  EXPECT_EQ(reader.load_new(), 0u);
  write_marker(closed, {0, 3, kNoteKind, "from elsewhere"});
  EXPECT_EQ(reader.load_new(), 1u);
  EXPECT_EQ(note_at(*history, 3), "from elsewhere");
  change(closed, "INSERT INTO frame (id, run, step) VALUES (1000, 0, 5)");
  EXPECT_EQ(reader.load_new(), 1u);
  EXPECT_EQ(history->steps().last, 5);
}

TEST_F(HostileFiles, ARecordingWithoutItsLogSaysSo) {
  const std::string whole = path("killed.moescope"), copied = path("copied.moescope");
  const Killed killed = record_and_be_killed(whole, 3);
  ASSERT_GT(killed.step, 10);
  fs::copy_file(whole, copied);
  ASSERT_TRUE(fs::exists(whole + "-wal"));
  {
    const RecordingReader reader(copied);
    EXPECT_TRUE(has(reader.missing(), copied + "-wal, is not here")) << reader.missing();
    const auto history = reader.load(0);
    const auto last = history->frame_at(INT64_MAX);
    ASSERT_TRUE(last);
    EXPECT_TRUE(has(reader.missing(), "ends with step " + std::to_string(last->step))) << reader.missing();
    RecordProperty("seconds_lost", std::to_string(killed.at_s - last->wall_s));
    EXPECT_LT(killed.at_s - last->wall_s, 2.5) << "the log is short: of " << killed.step << " steps";
    EXPECT_FALSE(fs::exists(copied + "-wal"));
  }
  const OpenedRuns opened = open_runs({copied}, {}, 4);
  ASSERT_EQ(opened.missing.size(), 1u);
  const auto markers = opened.histories[0]->markers();
  EXPECT_TRUE(std::ranges::any_of(markers, [](const Marker& m) { return m.kind == "event" && has(m.text, "-wal"); }));

  const RecordingReader reader(whole);
  EXPECT_EQ(reader.missing(), "");
  EXPECT_GE(reader.load(0)->steps().last, killed.step);
  fs::copy_file(whole, path("cut.moescope"));
  fs::copy_file(whole + "-wal", path("cut.moescope-wal"));
  fs::resize_file(path("cut.moescope-wal"), 40);
  EXPECT_TRUE(has(RecordingReader(path("cut.moescope")).missing(), "is damaged or was cut off"));
}

// A note moves the log of a killed program into the recording, and nothing is missing from it then.
TEST_F(HostileFiles, ANoteInAKilledRecordingTakesInItsLog) {
  const std::string killed = path("killed.moescope");
  const Killed last = record_and_be_killed(killed, 0.5);
  write_marker(killed, {0, 0, kNoteKind, "x"});
  EXPECT_FALSE(fs::exists(killed + "-wal"));
  const RecordingReader reader(killed);
  EXPECT_EQ(reader.missing(), "");
  EXPECT_GE(reader.load(0)->steps().last, last.step);
}

// A process that may not write reads all of it, log included (root may write anywhere: the child becomes nobody).
TEST_F(HostileFiles, AKilledRecordingIsReadWholeFromAMediumThatCannotBeWritten) {
  const std::string killed = path("killed.moescope");
  const Killed last = record_and_be_killed(killed, 1);
  for (const bool with_index : {true, false}) {
    if (!with_index) fs::remove(killed + "-shm");
    for (const auto& entry : fs::directory_iterator(folder_)) fs::permissions(entry, static_cast<fs::perms>(0444));
    fs::permissions(folder_, static_cast<fs::perms>(0555));
    const pid_t child = fork();
    if (child == 0) {
      if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
      const std::string words = words_of([&] {
        const RecordingReader reader(killed);
        const auto steps = reader.load(0)->steps();
        if (steps.last < last.step || steps.size() != steps.last + 1) throw std::runtime_error("steps are missing");
        if (!reader.missing().empty()) throw std::runtime_error(reader.missing());
      });
      std::fputs(words.c_str(), stderr);
      _exit(words.empty() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << (with_index ? "with its index" : "without its index");
    fs::permissions(folder_, fs::perms::owner_all);
  }
}

// Once, all members of the header were searched again for each of them.
TEST_F(HostileFiles, ManyTensorsAreReadInTimeProportionalToThem) {
  constexpr std::size_t kTensors = 100000;
  std::vector<TensorSpec> specs;
  for (std::size_t i = 0; i < kTensors; ++i) specs.push_back({"layers." + std::to_string(i) + ".w", DType::u8, {1}});
  const double start = processor_seconds();
  SafetensorsStream stream(path("many.safetensors"), specs, {});
  stream.append(std::vector<std::byte>(kTensors));
  stream.finish();
  const double written = processor_seconds();
  const SafetensorsFile file(path("many.safetensors"));
  const double read = processor_seconds();
  ASSERT_EQ(file.tensors().size(), kTensors);
  EXPECT_EQ(file.find("layers.77777.w"), &file.tensors()[77777]);
  EXPECT_LT(written - start, 5) << "s of processor time to write";
  EXPECT_LT(read - written, 5) << "s of processor time to read";
}

}  // namespace
}  // namespace moescope
