#include "widgets/overview/findings_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/numerics/index.h"
#include "widgets/panel/format_text.h"

namespace moescope {

FindingsWatch::FindingsWatch(Selection* selection, QObject* parent) : QObject(parent), selection_(selection) {
  timer_.setSingleShot(true);
  connect(&timer_, &QTimer::timeout, this, &FindingsWatch::look);
  connect(selection_, &Selection::dataChanged, this, &FindingsWatch::onData);
}

void FindingsWatch::onData() {
  if (timer_.isActive()) return;
  const qint64 elapsed = since_look_.isValid() ? since_look_.elapsed() : qint64{kEveryMs};
  timer_.start(to_int(std::clamp<qint64>(kEveryMs - elapsed, 0, kEveryMs)));
}

void FindingsWatch::look() {
  if (busy_) {
    has_newer_data_ = true;
    return;
  }
  busy_ = true;
  since_look_.start();
  QStringList heads;  // of the sentences about a run
  for (int place = 0; place < std::ssize(selection_->histories()); ++place)
    heads << (selection_->histories().size() == 1 ? QString() : runLetter(*selection_, place) + ": ");
  const auto scan = [this, histories = selection_->histories(), heads](const std::stop_token& stop) {
    Result result{.judged = histories};
    std::erase_if(scans_, [&](const auto& scan) { return std::ranges::count(histories, scan.first) == 0; });
    if (!histories.empty()) result.last_step = histories.front()->steps().last;
    for (const HistoryPtr& history : histories) {
      FindingsScan& scan = scans_.try_emplace(history, history).first->second;
      scan.advance(INT64_MAX, stop);
      std::vector<Finding> found = scan.findings();
      result.healths.push_back(judge_health(scan));
      const Checks checks = checks_of(*history, found);
      std::ranges::move(found, std::back_inserter(result.findings));
      result.read << QString::fromStdString(steps_read(*history));
      const QString& head = heads[result.healths.size() - 1];
      for (const std::string& line : checks.passed) result.passed << head + QString::fromStdString(line);
      for (const std::string& line : checks.not_checked) result.not_checked << head + QString::fromStdString(line);
    }
    sort_findings(result.findings);
    for (QStringList* lines : {&result.read, &result.passed, &result.not_checked}) lines->removeDuplicates();
    return result;
  };
  worker_.compute(this, scan, [this](const Result& result) { deliver(result); });
}

void FindingsWatch::deliver(const Result& result) {
  busy_ = false;
  if (std::exchange(has_newer_data_, false)) onData();
  if (result.judged != selection_->histories()) return onData();  // other runs were opened during the scan
  result_ = result;
  for (Finding& finding : result_.findings) {
    for (std::string* text : {&finding.title, &finding.observation, &finding.meaning, &finding.brief})
      *text = withFormatLabels(QString::fromStdString(*text)).toStdString();
  }
  for (Health& health : result_.healths) {
    health.sentence = withFormatLabels(QString::fromStdString(health.sentence)).toStdString();
    for (std::string& form : health.shorter) form = withFormatLabels(QString::fromStdString(form)).toStdString();
  }
  ready_ = true;
  std::vector<std::int64_t> steps;
  for (const Health& health : result_.healths) steps.push_back(health.last_step < 0 ? INT64_MAX : health.last_step);
  selection_->setVerdictSteps(std::move(steps));
  emit changed();
}

namespace {

// True if a finding is counted. Past findings are not counted, except a NaN loss, which may affect all later steps.
bool counts(const Finding& finding) {
  return finding.ongoing || finding.kind == FindingKind::loss_not_finite;
}

}  // namespace

const Health* FindingsWatch::health(int place) const {
  const std::size_t at = place;
  const auto& open = selection_->histories();
  if (place < 0 || at >= open.size() || at >= result_.judged.size() || result_.judged[at] != open[at]) return nullptr;
  return &result_.healths[at];
}

QString FindingsWatch::checksHtml() const {
  const auto list = [](const QString& title, const QStringList& lines) {
    if (lines.isEmpty()) return QString();
    QString html = QStringLiteral("<p>%1</p><ul style='margin-left:-24px'>").arg(title);
    for (const QString& line : lines) html += QStringLiteral("<li>%1</li>").arg(line.toHtmlEscaped());
    return html + QStringLiteral("</ul>");
  };
  return list("Checks that passed:", passed()) + list("Not checked:", notChecked());
}

QString FindingsWatch::lettersOf(const Finding& finding) const {
  QStringList letters;
  for (const Finding& other : findings())
    if (const int place = placeOf(other); place >= 0 && says_the_same(other, finding))
      letters << runLetter(*selection_, place);
  return letters.isEmpty() || selection_->histories().size() == 1 ? QString() : listed(letters);
}

int FindingsWatch::placeOf(const Finding& finding) const {
  return index_in(selection_->histories(), finding.run, [](const HistoryPtr& run) { return run->info().run; });
}

void FindingsWatch::setMuted(const Finding& finding, bool muted) {
  if (muted)
    muted_.insert(finding_id(finding));
  else
    muted_.erase(finding_id(finding));
  emit changed();
}

int FindingsWatch::mutedCount() const {
  return to_int(std::ranges::count_if(findings(), [this](const Finding& f) { return isMuted(f); }));
}

int FindingsWatch::count(Severity severity, int place) const {
  return to_int(std::ranges::count_if(findings(), [&](const Finding& f) {
    return counts(f) && f.severity == severity && !isMuted(f) && (place < 0 || placeOf(f) == place);
  }));
}

int FindingsWatch::pastCount() const {
  return to_int(std::ranges::count_if(findings(), [&](const Finding& f) { return !counts(f) && !isMuted(f); }));
}

QString FindingsWatch::text() const {
  std::vector<Finding> shown;
  std::ranges::copy_if(findings(), std::back_inserter(shown), [this](const Finding& f) { return !isMuted(f); });
  return QString::fromStdString(to_text(shown, selection_->histories()));
}

}  // namespace moescope
