#include "app/run_session.h"

#include <QFileInfo>
#include <functional>
#include <stdexcept>

#include "core/telemetry/recording.h"

namespace moescope {

struct RunSession::Opened {
  std::unique_ptr<Lab> lab;
  std::vector<std::shared_ptr<const History>> histories;
  RunConfig config;
  bool has_config = false;
  QString path, error;
};

RunSession::RunSession(QObject* parent) : QObject(parent) {}

RunSession::~RunSession() {
  cancelled_ = true;
  if (opener_.joinable()) opener_.join();
}

void RunSession::launch(std::shared_ptr<Opened> result, std::function<void(Opened&)> work) {
  cancelled_ = false;
  opener_ = std::thread([this, result, work = std::move(work)] {
    try {
      work(*result);
    } catch (const std::exception& e) {
      result->error = QString::fromUtf8(e.what());
    }
    QMetaObject::invokeMethod(
        this, [this, result] { adopt(*result); }, Qt::QueuedConnection);
  });
}

void RunSession::start(const RunConfig& config, const QString& recording_path) {
  if (opening()) return;
  if (lab_) lab_->pause();
  emit openingStarted("Building the model");
  auto result = std::make_shared<Opened>();
  result->config = config;
  result->path = recording_path;
  launch(result, [](Opened& opened) {
    opened.lab = std::make_unique<Lab>(std::vector{opened.config}, opened.path.toStdString());
    for (const auto& history : opened.lab->histories()) opened.histories.push_back(history);
  });
}

void RunSession::open(const QString& recording_path) {
  if (opening()) return;
  emit openingStarted("Reading " + QFileInfo(recording_path).fileName());
  auto result = std::make_shared<Opened>();
  result->path = recording_path;
  launch(result, [this](Opened& opened) {
    const RecordingReader reader(opened.path.toStdString());
    const auto& runs = reader.runs();
    if (runs.empty()) throw std::runtime_error(opened.path.toStdString() + ": the recording holds no run");
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto progress = [&](double share) {
        emit openingProgress((static_cast<double>(i) + share) / static_cast<double>(runs.size()));
        return !cancelled_.load();
      };
      auto history = reader.load(runs[i].run, progress);
      if (cancelled_) return;
      opened.histories.push_back(std::move(history));
    }
    if (runs[0].config_toml.empty()) return;
    opened.config = parse_config(runs[0].config_toml, opened.path.toStdString()).config;
    opened.has_config = true;
  });
}

void RunSession::cancelOpening() {
  cancelled_ = true;
}

void RunSession::adopt(Opened& result) {
  opener_.join();
  if (!result.error.isEmpty() || cancelled_) {
    emit failed(cancelled_ ? QString() : result.error);
    return;
  }
  const std::unique_ptr<Lab> old = std::exchange(lab_, std::move(result.lab));
  histories_ = std::move(result.histories);
  recorded_config_ = result.config;
  has_config_ = result.has_config;
  path_ = result.path;
  emit opened();
}

RunConfig RunSession::config() const {
  return lab_ ? lab_->config(0) : recorded_config_;
}

QString RunSession::change(const std::string& key, const ConfigValue& value) {
  if (!lab_) return "only a model in training can be changed";
  try {
    lab_->change({.run = 0, .key = key, .value = value});
  } catch (const std::invalid_argument& refused) {
    return QString::fromUtf8(refused.what());
  }
  emit configChanged();
  return {};
}

}  // namespace moescope
