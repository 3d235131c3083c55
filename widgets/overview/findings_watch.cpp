#include "widgets/overview/findings_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/findings/checks.h"

namespace moescope {

struct FindingsWatch::Scans {
  std::vector<std::unique_ptr<FindingsScan>> of;

  FindingsScan& scan(const HistoryPtr& history) {
    for (const auto& each : of) {
      if (each->history() == history) return *each;
    }
    of.push_back(std::make_unique<FindingsScan>(history));
    return *of.back();
  }
  void forgetAllBut(const std::vector<HistoryPtr>& histories) {
    std::erase_if(of,
                  [&](const auto& scan) { return std::ranges::find(histories, scan->history()) == histories.end(); });
  }
};

FindingsWatch::FindingsWatch(Selection* selection, const ComparedRuns* runs, QObject* parent)
    : QObject(parent), selection_(selection), runs_(runs), scans_(std::make_shared<Scans>()) {
  timer_.setSingleShot(true);
  connect(&timer_, &QTimer::timeout, this, &FindingsWatch::look);
  connect(selection_, &Selection::dataChanged, this, &FindingsWatch::onData);
  connect(runs_, &ComparedRuns::changed, this, &FindingsWatch::onData);
}

void FindingsWatch::onData() {
  if (timer_.isActive()) return;
  const qint64 since = since_look_.isValid() ? since_look_.elapsed() : qint64{kEveryMs};
  timer_.start(static_cast<int>(std::clamp<qint64>(kEveryMs - since, 0, kEveryMs)));
}

void FindingsWatch::look() {
  if (busy_) {
    again_ = true;
    return;
  }
  busy_ = true;
  since_look_.start();
  std::vector<HistoryPtr> histories(selection_->histories().begin(), selection_->histories().end());
  const std::vector<PairedRun> others = runs_->others(*selection_);
  std::vector<PairedRun> judged, twins = runs_->twins(*selection_);
  for (int place = 1; place <= std::ssize(others); ++place)
    if (!selection_->isNoiseTwin(place)) judged.push_back(others[static_cast<std::size_t>(place - 1)]);
  worker_.start([this, scans = scans_, histories = std::move(histories), judged = std::move(judged),
                 twins = std::move(twins), judging = runs_->judging(*selection_)](std::stop_token stop) {
    Result result;
    scans->forgetAllBut(histories);
    if (!histories.empty()) result.last_step = histories.front()->steps().last;
    for (const HistoryPtr& history : histories) {
      FindingsScan& scan = scans->scan(history);
      scan.advance(INT64_MAX, stop);
      std::vector<Finding> found = scan.findings();
      result.healths.push_back(judge_health(scan));
      const Checks checks = checks_of(*history, found);
      std::ranges::move(found, std::back_inserter(result.findings));
      result.read << QString::fromStdString(steps_read(*history));
      for (const std::string& line : checks.passed) result.passed << QString::fromStdString(line);
      for (const std::string& line : checks.not_checked) result.not_checked << QString::fromStdString(line);
    }
    for (const PairedRun& other : judged)
      for (Finding& finding : compare_findings(histories.front(), other, twins, judging))
        result.findings.push_back(std::move(finding));
    sort_findings(result.findings);
    for (QStringList* lines : {&result.read, &result.passed, &result.not_checked}) lines->removeDuplicates();
    QMetaObject::invokeMethod(
        this, [this, result = std::move(result), histories] { deliver(result, histories); }, Qt::QueuedConnection);
  });
}

void FindingsWatch::deliver(const Result& result, const std::vector<HistoryPtr>& of) {
  busy_ = false;
  if (std::exchange(again_, false)) onData();
  if (!std::ranges::equal(of, selection_->histories())) return onData();  // other runs were opened meanwhile
  findings_ = result.findings;
  healths_ = result.healths;
  judged_ = of;
  read_ = result.read;
  passed_ = result.passed;
  not_checked_ = result.not_checked;
  last_step_ = result.last_step;
  ready_ = true;
  emit changed();
}

namespace {

// Whether a finding is counted. Past findings are not, except a NaN loss, which may affect all later steps.
bool counts(const Finding& finding) {
  return finding.ongoing || finding.kind == FindingKind::loss_not_finite;
}

}  // namespace

const Health* FindingsWatch::health(int place) const {
  const auto at = static_cast<std::size_t>(place);
  const auto& open = selection_->histories();
  if (place < 0 || at >= open.size() || at >= judged_.size() || judged_[at] != open[at]) return nullptr;
  return &healths_[at];
}

QString FindingsWatch::checksHtml() const {
  const auto list = [](const QString& title, const QStringList& lines) {
    if (lines.isEmpty()) return QString();
    QString html = QStringLiteral("<p>%1</p><ul style='margin-left:-24px'>").arg(title);
    for (const QString& line : lines) html += QStringLiteral("<li>%1</li>").arg(line.toHtmlEscaped());
    return html + QStringLiteral("</ul>");
  };
  return list("Checks that passed:", passed_) + list("Not checked:", not_checked_);
}

int FindingsWatch::placeOf(const Finding& finding) const {
  const auto& histories = selection_->histories();
  for (std::size_t place = 0; place < histories.size(); ++place) {
    if (histories[place]->info().run == finding.run) return static_cast<int>(place);
  }
  return -1;
}

void FindingsWatch::setMuted(const Finding& finding, bool muted) {
  if (muted)
    muted_.insert(finding_id(finding));
  else
    muted_.erase(finding_id(finding));
  emit changed();
}

int FindingsWatch::mutedCount() const {
  return static_cast<int>(std::ranges::count_if(findings_, [this](const Finding& f) { return isMuted(f); }));
}

int FindingsWatch::count(Severity severity) const {
  return static_cast<int>(std::ranges::count_if(
      findings_, [&](const Finding& f) { return counts(f) && f.severity == severity && !isMuted(f); }));
}

int FindingsWatch::overCount() const {
  return static_cast<int>(
      std::ranges::count_if(findings_, [&](const Finding& f) { return !counts(f) && !isMuted(f); }));
}

QString FindingsWatch::text() const {
  std::vector<Finding> shown;
  std::ranges::copy_if(findings_, std::back_inserter(shown), [this](const Finding& f) { return !isMuted(f); });
  const std::vector<HistoryPtr> histories(selection_->histories().begin(), selection_->histories().end());
  return QString::fromStdString(to_text(shown, histories));
}

}  // namespace moescope
