#include "app/export/report.h"

#include <QCoreApplication>
#include <QDateTime>
#include <algorithm>
#include <cmath>
#include <functional>

#include "app/workspaces/picture.h"
#include "core/config/config_difference.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/files/assets.h"
#include "core/files/text/words.h"
#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/operand_sqnr.h"
#include "core/findings/comparison/regression_gate.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/findings/findings.h"
#include "core/findings/health.h"
#include "core/numerics/processor.h"
#include "core/recording/history/router_window.h"
#include "core/recording/history/step_axis.h"
#include "widgets/cluster/this_imbalance_panel.h"
#include "widgets/compare/judged_runs.h"
#include "widgets/look/counted_text.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/panel/explain_card.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/metric_text.h"
#include "widgets/router/expert_load_panel.h"

namespace moescope {

namespace {

constexpr std::int64_t kLossSteps = 10;  // of the mean loss, as in the panel Loss
constexpr QSize kPictureSize{640, 330}, kTableSize{1200, 330};
constexpr const char* kPictureId = "picture-of-report-";  // begins the names in a picture until it is written

constexpr const char* kStyle = R"css(
body { background: var(--surface); max-width: 1240px; margin: 24px auto; padding: 0 16px; }
h1 { margin-bottom: 4px } h2 { margin-top: 24px; border-bottom: 1px solid var(--hairline) }
table { border-collapse: collapse; margin: 8px 0; display: block; overflow-x: auto }
th, td { padding: 4px 12px; text-align: right; border-bottom: 1px solid var(--hairline); vertical-align: top }
th { background: var(--sunken) } th:first-child, td:first-child, td.words, th.words { text-align: left }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(480px, 1fr)); gap: 8px 24px }
figure { margin: 8px 0; page-break-inside: avoid; min-width: 0 } figure pre { max-height: 24em } figure svg { max-width: 100%; height: auto }
.muted { color: var(--ink2) } .severe, .warning, .note, .good { border-radius: 6px; padding: 8px 12px; margin: 8px 0 }
.severe { background: var(--bad-soft) } .warning { background: var(--attention-soft) } .note { background: var(--neutral-soft) } .good { background: var(--good-soft) }
.verdict { font-size: var(--heading) } .verdict :is(td, th):nth-child(-n + 3) { text-align: left }
.verdict td:not(:nth-child(3)) { white-space: nowrap }
details { margin: 8px 0 } summary { cursor: pointer; color: var(--accent) } pre { overflow-x: auto; background: var(--sunken); padding: 12px }
@media print { details { display: none } body { margin: 0; max-width: none } }
)css";

QString pageStyle() {
  const std::string_view look = page_look();
  return QString::fromUtf8(look.data(), look.size()) + QString(kStyle).trimmed();
}

QString html(const std::string& text) {
  return withFormatLabels(printedText(text)).toHtmlEscaped();
}

QString figureText(double value, int digits, double factor = 1) {
  if (is_missing(static_cast<float>(value))) return {};
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "exact" : "-Inf";
  return QString::number(factor * value, 'f', digits);
}

QString tableRow(const QStringList& cells, const char* cell = "td") {
  QString text = "<tr>";
  for (const QString& content : cells) text += QString("<%1>%2</%1>").arg(cell, content);
  return text + "</tr>\n";
}

// Returns the cells of a run in the table of figures, in the order of its columns.
QStringList figureCells(const History& run, const Selection& selection, const OperandSqnr& sqnr) {
  const std::int64_t last = selection.shownStepOf(run);
  const FormatCosts costs = format_costs(run, last);
  const RouterWindow window = router_window(run, last);
  const RunFigures figures = run_figures(run, window_steps(run, last)),
                   losses = run_figures(run, window_steps(run, last, kLossSteps));
  QStringList cells{selection.rangeText(window_steps(run, last)), figureText(figures.final_loss, 3),
                    figureText(losses.mean_loss, 3)};
  // With forced balance, tokens have their experts without a router.
  const bool is_forced = run.settings_at_start()->holds(&RouterConfig::force_balance);
  if (window.layers.empty() || is_forced) {
    cells << QStringList(4);
  } else {
    const auto placed = [&](double LayerWindow::*figure, int digits, double factor) {
      const LayerWindow& layer = *window.worst(figure);
      return QString("%1, layer %2").arg(figureText(layer.*figure, digits, factor)).arg(layer.layer);
    };
    cells << placed(&LayerWindow::max_vio, 3, 1) << placed(&LayerWindow::cv, 3, 1)
          << placed(&LayerWindow::entropy, 1, 100) << QString::number(window.silent());
  }
  const auto if_routed = [is_forced](float share) { return is_forced ? QString() : figureText(share, 2, 100); };
  cells << (std::isfinite(figures.tokens_per_s) ? groupedText(std::llround(figures.tokens_per_s)) : QString())
        << figureText(sqnr.worst_db, 1) << figureText(sqnr.mean_db, 1) << if_routed(figures.flip_rate)
        << if_routed(figures.rounding_flip_rate) << figureText(figures.gradient_cosine, 5)
        << figureText(costs.gradient_error, 1, 100) << figureText(costs.flushed, 1, 100);
  return cells;
}

class HtmlReport {
 public:
  explicit HtmlReport(const ReportSource& source)
      : source_(source), histories_(source.selection->histories().begin(), source.selection->histories().end()) {
    if (histories_.empty()) return;
    for (const HistoryPtr& history : histories_) {
      FindingsScan scan(history);
      scan.advance(INT64_MAX);
      found_.push_back(scan.findings());
      healths_.push_back(judge_health(scan));
    }
    twins_ = source_.compared->twins(*source_.selection);
  }

  QByteArray text() {
    head();
    if (!histories_.empty()) {
      outcome();
      figuresTable();
      settings();
      findings();
      pictures();
      cluster();
      changes();
      allSettings();
      absent();
    }
    out_ += "<p class=\"muted\">Figures are " +
            distinct([](const History& run) { return measuredWhere(&run); }).join(" or ") +
            " unless marked otherwise. MoEScope " + QCoreApplication::applicationVersion().toHtmlEscaped() +
            "</p></body></html>\n";
    return out_.toUtf8();
  }

 private:
  QString name(std::size_t place) const { return runLabel(*source_.selection, to_int(place)).toHtmlEscaped(); }
  bool compares() const { return histories_.size() > 1; }
  const ComparedRun& compared(std::size_t i) const {
    static const ComparedRun unknown;
    return i < source_.compared->runs().size() ? source_.compared->runs()[i] : unknown;
  }
  bool noiseTwin(std::size_t i) const { return compared(i).noise_twin; }
  Judging judging() const { return source_.compared->judging(*source_.selection); }
  QString twinWords(std::size_t i) const;
  QString seedNote() const;
  QString nextStep() const;
  QString lettersWhere(const std::function<bool(std::size_t)>& holds) const;

  void head();
  void outcome();
  void comparison();
  void regression();
  void health(std::size_t i);
  void figuresTable();
  QStringList distinct(QString (*text)(const History&)) const;
  void settings();
  void findings();
  void finding(const Finding& finding, const QString& runs);
  void pictures();
  QString figure(Panel* panel, QSize size = kPictureSize);
  void write(const QStringList& figures);
  void cluster();
  void changes();
  void allSettings();
  void absent();

  const ReportSource& source_;
  std::vector<HistoryPtr> histories_;
  std::vector<std::vector<Finding>> found_;  // findings of each run, in the order of sort_findings()
  std::vector<Health> healths_;              // router verdict of each run
  std::vector<PairedRun> twins_;
  QString out_;
  QStringList absent_, not_checked_;  // figures and panels without data, and checks that were not made
  int pictures_ = 0;
};

void HtmlReport::head() {
  QStringList names;
  for (std::size_t i = compares(); i < histories_.size(); ++i)
    if (!noiseTwin(i)) names << runName(*source_.selection, to_int(i)).toHtmlEscaped();
  if (names.isEmpty()) names << (compares() ? "Noise twins" : "No run");
  const QString title =
      listed(names) + (compares() ? " against " + runName(*source_.selection, 0).toHtmlEscaped() : QString());
  const bool logs = source_.configs.empty() && compares();  // the title has their names
  const QString file = source_.configs.empty() ? "Log " : "Recording ";
  out_ += QString(
              "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%1 - MoEScope</title><meta "
              "name=\"viewport\" content=\"width=device-width\"><style>%2</style></head><body>\n"
              "<h1>%1</h1>\n<p class=\"muted\">%3%4</p>\n")
              .arg(title, pageStyle(),
                   source_.file.isEmpty() || logs ? QString() : file + source_.file.toHtmlEscaped() + ", ",
                   "report of " + QDateTime::currentDateTime().toString("yyyy-MM-dd hh:mm"));
}

QString HtmlReport::twinWords(std::size_t i) const {
  if (const HistoryPtr beginning = compared(i).twin_until)
    return QString("the settings of A up to step %1. Up to there they differ by chance only.")
        .arg(beginning->steps().last);
  QString settings("the settings of A with another seed");
  if (histories_[i]->info().config_toml.empty())
    settings = "the same settings as A";
  else if (compared(i).same_start)
    settings = "the settings and the seed of A, with first weights perturbed in the last place";
  return settings + ". They differ by chance only.";
}

// Letters of the runs for which `holds`, each with a colon behind the last: "A, B and N: "; empty for a single run.
QString HtmlReport::lettersWhere(const std::function<bool(std::size_t)>& holds) const {
  QStringList letters;
  for (std::size_t i = 0; i < histories_.size() && compares(); ++i)
    if (holds(i)) letters << runLetter(*source_.selection, to_int(i));
  return letters.isEmpty() ? QString() : listed(letters) + ": ";
}

void HtmlReport::outcome() {
  out_ += "<h2>Results</h2>\n";
  if (compares()) comparison();
  const auto about = [this](std::size_t run) {
    const RunInfo& info = histories_[run]->info();
    return QString("%1, %2 layers, %3 of them mixture-of-experts with %4 experts, top %5; %6.")
        .arg(QString::fromStdString(steps_text(*histories_[run])))
        .arg(info.n_layers)
        .arg(info.moe_layers.size())
        .arg(info.n_experts)
        .arg(info.top_k)
        .arg(html(info.source));
  };
  QStringList texts;
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    const QString text = about(i);
    if (texts.contains(text)) continue;
    const QString runs = lettersWhere([&](std::size_t run) { return about(run) == text; });
    out_ += QString("<p><b>%1</b>%2</p>\n").arg(compares() ? runs : name(i) + ": ", texts.emplace_back(text));
  }
  if (comparesForced(*source_.selection))
    out_ +=
        "<p class=\"note\"><b>Router not judged:</b> balance is forced, so that the load does not show what the "
        "router would choose.</p>\n";
  for (std::size_t i = 0; i < histories_.size() && !comparesForced(*source_.selection); ++i) health(i);
}

void HtmlReport::comparison() {
  JudgedRuns& judged = *source_.judged;
  QString rows, sentences, twins;
  for (std::size_t i = 1; i < histories_.size(); ++i)
    if (noiseTwin(i)) twins += QString("<p><b>%1</b> is a noise twin: %2</p>\n").arg(name(i), twinWords(i));
  if (const QString notice = judged.update(); !notice.isEmpty())
    out_ += QString("<p class=\"note\"><b>Not judged:</b> %1</p>\n").arg(notice.toHtmlEscaped());
  else
    for (const int place : judged.candidates()) {
      const Conclusion& c = judged.conclusion(place);
      QString gap = is_missing(c.gap) ? QString() : signedFixed(c.gap, 4), reason;
      if (!is_missing(c.half_width)) gap = gapText(c);
      const float share = c.matters > 0 ? static_cast<float>(100 * judging().matters * c.gap / c.matters) : kNoValue;
      const QString percent = is_missing(share) ? QString() : signedFixed(share, 2);
      if (const auto reasons = verdict_reasons(c); !reasons.empty()) reason = html(reasons.front());
      rows +=
          tableRow({name(place), "<b>" + html(verdict_name(c)) + "</b>", reason, gap, percent, figureText(c.matters, 4),
                    c.steps.empty() ? QString() : QString("%1 to %2").arg(c.steps.first).arg(c.steps.last)});
      if (!judged.isOverSeeds()) sentences += "<p>" + html(verdict_sentence(c)) + ".</p>";
    }
  if (!rows.isEmpty())
    out_ +=
        "<table class=\"verdict\">\n" +
        tableRow(
            {"run", "verdict", "reason", "mean loss gap to " + judged.baselineLetter() + ", nats/token, \u00b195 %",
             "% of the loss", "gap that matters", "compared steps"},
            "th") +
        rows + "</table>\n" + seedNote() + nextStep() +
        (sentences.isEmpty() ? "" : "<details><summary>The verdicts in full</summary>" + sentences + "</details>\n");
  const QString about =
      QString::fromUtf8(asset(twins_.empty() ? "panels/report_no_twin.html" : "panels/report_gap.html"));
  out_ += twins + (twins_.empty() ? about : about.arg(100 * judging().matters));
  if (!rows.isEmpty()) regression();
}

// Whether other figures of the runs whose loss is not judged stay in the noise band, as the window says.
void HtmlReport::regression() {
  for (const int place : source_.judged->candidates()) {
    std::vector<HistoryPtr> other_runs = histories_;
    other_runs.erase(other_runs.begin() + place);
    if (verdict_word(source_.judged->conclusion(place)) != VerdictWord::not_judged) continue;
    const GateReport gate = judge_gate(histories_[place], other_runs);
    if (gate.verdict != GateVerdict::too_early)
      out_ += QString("<p class=\"%1\"><b>%2, other figures: %3.</b> %4</p>\n")
                  .arg(gate.verdict == GateVerdict::regressed ? "severe" : "note", name(place),
                       gate_verdict_name(gate.verdict), html(gate_sentence(gate)));
  }
}

QString HtmlReport::seedNote() const {
  const QString seeds = source_.judged->seedText();
  if (seeds.isEmpty()) return {};
  return "<p><b>" + seeds.left(1).toUpper() + seeds.mid(1) + ".</b> " +
         (source_.judged->isOverSeeds() ? "Verdicts and gaps are means over these seeds, with Student's interval. All "
                                          "other figures, pictures and findings are those of the last seed.</p>\n"
                                        : "All verdicts, figures, pictures and findings are those of this seed.</p>\n");
}

// What would settle open verdicts, as the line of verdicts in the window offers it.
QString HtmlReport::nextStep() const {
  const JudgedRuns& judged = *source_.judged;
  const Settlement found = judged.settlement();
  QString step;
  if (found.how == Settlement::How::first_twin)
    step = "add a noise twin, another run with the settings of A: it shows how large a gap chance alone causes.";
  else if (found.how == Settlement::How::another_twin)
    step = "add one more noise twin, another run with the settings of A: it makes the intervals narrower.";
  else if (found.how == Settlement::How::forced_balance)
    step = "train all runs again with forced balance: the verdicts are then about arithmetic alone.";
  else if (judged.isOverSeeds())
    step =
        (judged.dependsOnSeed() ? "train the same runs with further seeds. " : "") + judged.openSeedsForms().value(0);
  else if (judged.dependsOnSeed())
    step = "train the same runs with further seeds: these are the verdicts of one seed, and another may give another.";
  else if (found.how == Settlement::How::more_steps)
    step = QString("train all runs to step %1.").arg(groupedText(found.step));
  return step.isEmpty() ? step : "<p><b>Next step:</b> " + step + "</p>\n";
}

// The texts on the runs, each once.
QStringList HtmlReport::distinct(QString (*text)(const History&)) const {
  QStringList texts;
  for (const HistoryPtr& history : histories_) texts << text(*history);
  texts.removeDuplicates();
  texts.removeAll(QString());
  return texts;
}

// Writes one paragraph for all runs with the same verdict.
void HtmlReport::health(std::size_t i) {
  const Health& health = healths_[i];
  const auto is_same = [&](const Health& other) { return other.sentence == health.sentence; };
  if (std::ranges::find_if(healths_, is_same) != healths_.begin() + to_int(i)) return;
  const QString runs = lettersWhere([&](std::size_t run) { return is_same(healths_[run]); });
  const char* look = "note";
  if (health.verdict == HealthVerdict::healthy) look = "good";
  if (health.verdict == HealthVerdict::attention) look = "warning";
  if (health.verdict >= HealthVerdict::unhealthy) look = "severe";
  out_ += QString("<p class=\"%1\"><b>%2:</b> %3 %4</p>\n")
              .arg(look, runs + health_verdict_name(health.verdict), html(health.sentence), html(advice_text(health)));
}

// Figures of the 50 steps of the verdict and its tiles. Figures that no run has are not columns.
void HtmlReport::figuresTable() {
  struct Column {
    QString name;
    QStringList cells = {};
  };
  std::vector<Column> columns{
      {"steps"},
      {"loss, nats/token"},
      {QString("mean of %1 losses").arg(kLossSteps)},
      {"largest overload (MaxVio)"},
      {"spread of load (CV)"},
      {"entropy of load, %"},
      {"unused experts"},
      {source_.configs.empty() ? "tokens/s" : "tokens/s of emulated formats, no speed of a GPU"},
      {"lowest SQNR, dB"},
      {"mean SQNR, dB"},
      {"routing flips against A, %"},
      {"flips by rounding, %"},
      {"gradient cosine"},
      {"gradient error, %"},
      {"largest share flushed to zero, %"}};
  const Selection& selection = *source_.selection;
  const std::vector<OperandSqnr> sqnr =
      operand_sqnr(histories_, last_common_steps(histories_, 1, selection.shownStepOf(*histories_.front())).last);
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    const QStringList cells = figureCells(*histories_[i], selection, sqnr[i]);
    for (std::size_t column = 0; column < columns.size(); ++column) columns[column].cells << cells[to_int(column)];
  }
  const auto is_empty = [](const Column& column) { return column.cells.join(QString()).isEmpty(); };
  for (const Column& column : columns)
    if (is_empty(column)) absent_ << column.name.section(QLatin1Char(','), 0, 0);
  std::erase_if(columns, is_empty);
  QString steps = "these steps";
  if (const QStringList cells = columns.front().cells; cells.count(cells.front()) == cells.size()) {
    steps = cells.front();
    columns.erase(columns.begin());
  }
  const bool has_loads =
      std::ranges::any_of(columns, [](const Column& column) { return column.name.contains("load"); });
  const bool has_sqnr = std::ranges::find(columns, "lowest SQNR, dB", &Column::name) != columns.end();
  QStringList header{"run"};
  for (const Column& column : columns) header << column.name;
  const QString gemms = distinct([](const History& run) { return html(multiplied_by(run.info().kernels)); }).join("; ");
  out_ += "<h2>Figures</h2>\n<table>\n" + tableRow(header, "th");
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    QStringList row{name(i)};
    for (const Column& column : columns) row << (column.cells[to_int(i)].isEmpty() ? "-" : column.cells[to_int(i)]);
    out_ += tableRow(row);
  }
  out_ += "</table>\n<p class=\"muted\">The loss is that of the last of " + steps + "; " +
          (has_loads
               ? "loads are of all of them, in the layer where the figure is worst. MaxVio: load of the fullest expert "
                 "over its fair share, minus 1. "
               : "speeds are of all of them. ") +
          (has_sqnr ? html(kSqnrNote) : QString()) + " A dash: the run has no such figure." +
          (gemms.isEmpty() ? gemms : " GEMMs: " + gemms + '.') + "</p>\n";
}

// Writes the settings that differ between the runs; for logs, the settings of their first lines.
void HtmlReport::settings() {
  if (!compares()) return;
  std::vector<SettingDifference> keys;
  for (const ComparedRun& run : source_.compared->runs())
    for (const SettingDifference& found : run.settings)
      if (std::ranges::none_of(keys, [&](const SettingDifference& known) { return known.key == found.key; }))
        keys.push_back(found);
  if (keys.empty() && source_.configs.empty()) return;
  out_ += "<h2>Settings that differ</h2>\n";
  if (keys.empty()) {
    out_ += "<p>None: all runs have the same settings.</p>\n";
    return;
  }
  QStringList header = {"setting"};
  for (std::size_t i = 0; i < histories_.size(); ++i) header << name(i);
  out_ += "<table>\n" + tableRow(header, "th");
  for (const SettingDifference& key : keys) {
    const ConfigField* field = find_field(key.key.toStdString());
    QStringList cells = {(field ? html(field->label) + ' ' : QString()) + "<span class=\"muted\">" +
                         key.key.toHtmlEscaped() + "</span>"};
    for (std::size_t i = 0; i < histories_.size(); ++i) {
      const auto& settings = compared(i).settings;
      const auto found = std::ranges::find(settings, key.key, &SettingDifference::key);
      const QString value = found == settings.end() ? key.a_value : found->run_value;
      cells << (field ? valueWords(value) : value).toHtmlEscaped();
    }
    out_ += tableRow(cells);
  }
  out_ += "</table>\n";
}

void HtmlReport::finding(const Finding& finding, const QString& runs) {
  const char* severity = severity_name(finding.severity);
  out_ += QString("<div class=\"%1\"><p><b>%2</b> <span class=\"muted\">%3, steps %4 to %5</span><br>%6 %7</p>")
              .arg(severity, runs + html(finding.title), QString(severity) + (finding.ongoing ? "" : ", over"))
              .arg(finding.steps.first)
              .arg(finding.steps.last)
              .arg(html(finding.observation), html(finding.meaning));
  QStringList settings;
  for (const std::string& name : finding.settings) settings << "<code>" + html(name) + "</code>";
  if (!settings.isEmpty()) out_ += "<p class=\"muted\">Settings that affect it: " + settings.join(", ") + "</p>";
  out_ += "</div>\n";
}

// The findings of all runs, each once, then the runs without findings.
void HtmlReport::findings() {
  out_ += "<h2>Findings</h2>\n";
  std::vector<Finding> all;
  for (const std::vector<Finding>& found : found_) all.insert(all.end(), found.begin(), found.end());
  sort_findings(all);
  for (auto found = all.begin(); found != all.end(); ++found) {
    const auto is_same = [&](const Finding& other) { return says_the_same(other, *found); };
    if (std::find_if(all.begin(), found, is_same) != found) continue;
    finding(*found, lettersWhere([&](std::size_t run) { return std::ranges::any_of(found_[run], is_same); }));
  }
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    if (!found_[i].empty()) continue;
    const Checks checks = checks_of(*histories_[i], found_[i]);
    out_ += "<p>" + (compares() ? name(i) + ": no findings." : QString("No findings in this run.")) +
            " Read: " + html(steps_read(*histories_[i])) + ".</p>\n";
    if (!checks.passed.empty())
      out_ += "<details><summary>" + countedText(to_int(checks.passed.size()), "passed check") + "</summary><ul><li>" +
              html(joined(checks.passed, "\n")).replace("\n", "</li><li>") + "</li></ul></details>\n";
    for (const std::string& line : checks.not_checked)
      not_checked_ << QString::fromStdString(line).section(QLatin1Char(':'), 0, 0);
  }
}

// Returns a figure of the panel with its explanation and numbers; empty: the panel has no data.
QString HtmlReport::figure(Panel* panel, QSize size) {
  const PrintedPicture drawn = panelPicture(panel, *source_.selection, PictureKind::svg, size, kPictureId);
  QList<PlotFrame*> plots = panel->findChildren<PlotFrame*>();
  plots.removeIf([panel](const PlotFrame* plot) { return !plot->isVisibleTo(panel); });
  const bool empty =
      !plots.isEmpty() && std::ranges::all_of(plots, [](const PlotFrame* plot) { return !plot->notice().isEmpty(); });
  if (empty) {
    absent_ << panel->title();
    return {};
  }
  return QString(
             "<figure>%1\n<details><summary>How to read \"%2\"</summary>%3</details>\n"
             "<details><summary>The numbers</summary><pre>%4</pre></details></figure>\n")
      .arg(QString::fromUtf8(drawn.html), panel->title().toHtmlEscaped(), cardInPrint(panel->explain()),
           panel->csv().toHtmlEscaped());
}

// Writes figures under names of their own, because the page has several pictures.
void HtmlReport::write(const QStringList& figures) {
  out_ += "<div class=\"figures\">\n";
  for (QString figure : figures) out_ += figure.replace(QLatin1String(kPictureId), QString("f%1").arg(++pictures_));
  out_ += "</div>\n";
}

void HtmlReport::pictures() {
  out_ += "<h2>Pictures</h2>\n";
  Selection* selection = source_.selection;
  QStringList figures_of_all_runs;
  if (source_.verdicts) write({figure(source_.verdicts, kTableSize)});
  for (Panel* panel : source_.panels_of_all_runs) {
    auto* loss = qobject_cast<LossPanel*>(panel);
    const Metric shown = loss ? loss->shownMetric() : Metric::ce_loss;
    if (loss) loss->setMetric(Metric::ce_loss);
    figures_of_all_runs << figure(panel);
    if (loss) loss->setMetric(shown);
  }
  QList<Panel*> panels_of_one_run;
  for (Panel* panel : source_.panels_of_one_run) {
    const QString drawn = figure(panel);
    // Of several runs, the map of loads shows two.
    const bool has_all = histories_.size() == 2 || !qobject_cast<ExpertLoadPanel*>(panel);
    if (has_all && panel->property("shows_all_runs").toBool())
      figures_of_all_runs << drawn;
    else
      panels_of_one_run << panel;
  }
  write(figures_of_all_runs);
  const int run = selection->run();
  for (std::size_t i = 0; i < histories_.size() && !panels_of_one_run.isEmpty(); ++i) {
    selection->setRun(to_int(i));
    if (compares()) out_ += "<h3>Run " + name(i) + "</h3>\n";
    QStringList figures;
    for (Panel* panel : panels_of_one_run) figures << figure(panel);
    write(figures);
  }
  selection->setRun(run);
}

void HtmlReport::cluster() {
  if (!source_.cost || source_.cluster_panels.isEmpty()) return;
  source_.cost->answerNow();
  const QString headline = source_.cost->headline().value(0);
  if (headline.isEmpty()) {
    absent_ << "Cluster";
    return;
  }
  out_ += QString("<h2>Cluster</h2>\n<p class=\"verdict\">%1</p>\n<p class=\"muted\">%2</p>\n")
              .arg(headline.toHtmlEscaped(), source_.cost->caption().toHtmlEscaped());
  QStringList figures;
  for (Panel* panel : source_.cluster_panels) figures << figure(panel);
  write(figures);
}

// Writes one line on all that the runs do not contain.
void HtmlReport::absent() {
  QStringList parts;
  for (QStringList* names : {&absent_, &not_checked_}) names->removeDuplicates();
  if (!absent_.isEmpty()) parts << "Not in these runs: " + absent_.join(", ").toHtmlEscaped() + '.';
  if (!not_checked_.isEmpty()) parts << "Not checked: " + not_checked_.join(", ").toHtmlEscaped() + '.';
  if (!parts.isEmpty()) out_ += "<p class=\"muted\">" + parts.join(' ') + "</p>\n";
}

void HtmlReport::changes() {
  QString rows;
  for (std::size_t i = 0; i < histories_.size(); ++i)
    for (const Marker& marker : histories_[i]->markers()) {
      if (is_data_marker(marker.kind)) continue;
      rows += QString("<tr><td>%1</td><td>%2</td><td class=\"words\">%3</td><td class=\"words\">%4</td></tr>\n")
                  .arg(name(i))
                  .arg(marker.step)
                  .arg(html(marker.kind), html(marker.text));
    }
  if (rows.isEmpty()) return;
  out_ +=
      "<h2>Changes and notes</h2>\n<table><tr><th>run</th><th>before step</th><th class=\"words\">kind</th><th "
      "class=\"words\">what</th></tr>\n" +
      rows + "</table>\n";
}

void HtmlReport::allSettings() {
  if (source_.configs.empty()) return;
  out_ += "<h2>All settings</h2>\n";
  for (std::size_t i = 0; i < source_.configs.size() && i < histories_.size(); ++i)
    out_ += QString("<details><summary>%1</summary><pre>%2</pre></details>\n")
                .arg(name(i), QString::fromStdString(to_toml(source_.configs[i])).toHtmlEscaped());
}

}  // namespace

// While the newest steps are followed, the cursor is put at the last step that all runs have, so that all figures of
// the report are of the same step.
QByteArray report(const ReportSource& source) {
  Selection& selection = *source.selection;
  const std::vector<HistoryPtr> runs = selection.histories();
  const int run = selection.run();
  const bool follows = selection.following(), shows_all = selection.showsAll();
  const StepRange range = selection.range();
  const std::int64_t step = selection.step();
  selection.fitRange();  // the report is of all steps, also while a part is shown
  if (!follows) selection.setStep(step);
  const auto length = [&](const HistoryPtr& history) {
    return (history->steps().last + 1) * (selection.isByTokens() ? history->info().tokens_per_step : 1);
  };
  const auto [shortest, longest] = std::ranges::minmax_element(runs, {}, length);
  if (follows && runs.size() > 1 && length(*shortest) < length(*longest)) {
    selection.setRun(to_int(shortest - runs.begin()));
    const std::int64_t common_end = selection.stepOf(**longest, selection.step());
    selection.setRun(to_int(longest - runs.begin()));
    selection.setStep(common_end);
  }
  const QByteArray text = HtmlReport(source).text();
  selection.setRun(run);
  shows_all ? selection.fitRange() : selection.setRange(range);
  if (!follows) selection.setStep(step);
  selection.setFollowing(follows);
  return text;
}

}  // namespace moescope
