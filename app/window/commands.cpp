#include "app/window/commands.h"

#include <QAction>
#include <QFile>
#include <QFileInfo>
#include <QMenu>
#include <QMenuBar>
#include <QPointer>
#include <QRegularExpression>
#include <QSet>
#include <algorithm>

#include "app/actions/file_actions.h"
#include "app/actions/live_settings.h"
#include "app/help/manual.h"
#include "app/lessons/lesson_actions.h"
#include "app/look/shortcut_sheet.h"
#include "app/session/settings.h"
#include "app/window/main_window.h"
#include "app/window/menus.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/lessons/lesson.h"
#include "core/recording/history/router_window.h"
#include "widgets/cluster/time_of_a_step_panel.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/setting_labels.h"
#include "widgets/microscaling/format_card.h"
#include "widgets/panel/explain_card.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/metric_text.h"
#include "widgets/plots/axis.h"
#include "widgets/router/expert_panel.h"

namespace moescope {

namespace {

constexpr qsizetype kPagesWithWords = 3, kShortestSearch = 3;  // pages of the manual, letters

QString plain(QString text) {
  return text.remove('&').section('\t', 0, 0);
}

// Returns -1 if there is none.
std::int64_t numberIn(const QString& typed) {
  static const QRegularExpression kNumber(QStringLiteral("\\d[\\d,]*"));
  const auto found = kNumber.match(typed);
  return found.hasMatch() ? found.captured().remove(',').toLongLong() : -1;
}

class Collector {
 public:
  explicit Collector(MainWindow* window) : window_(window) {}

  std::vector<PaletteCommand> all() {
    for (const QAction* top : window_->menuBar()->actions())
      if (top->menu()) takeMenu(top->menu(), plain(top->text()), {});
    for (QAction* action : window_->findChildren<QAction*>())
      if (!action->shortcut().isEmpty()) takeAction(action, "Window", {});
    takePanels();
    takeMetrics();
    takeSettings();
    takeLessons();
    takeFormats();
    takeFindings();
    takeTerms();
    takePlaces();
    takePagesWithWords();
    for (const QString& path : recentFiles())
      add(
          "Open " + QFileInfo(path).fileName(), "Recent file",
          [window = window_, path] { window->files()->openRecent(path); }, {}, QFileInfo(path).path());
    return std::move(commands_);
  }

 private:
  void add(const QString& title, const QString& group, std::function<void()> run, const QString& keys = {},
           const QString& also = {}) {
    commands_.push_back({title, group, keys, std::move(run), also});
  }

  void takeMenu(QMenu* menu, const QString& group, const QString& prefix) {
    if (menu->property("fills_itself").toBool()) return;  // its commands are added separately
    for (QAction* action : menu->actions()) {
      if (action->menu())
        takeMenu(action->menu(), group, plain(action->text()) + ": ");
      else
        takeAction(action, group, prefix);
    }
  }

  void takeAction(QAction* action, const QString& group, const QString& prefix) {
    if (action->isSeparator() || !action->isVisible() || action->text().isEmpty()) return;
    if (!listed_.contains(action) && action->isEnabled() && action->text() != "Search")
      add(
          prefix + plain(action->text()), group,
          [guard = QPointer<QAction>(action)] {
            if (guard) guard->trigger();
          },
          action->shortcut().toString(QKeySequence::NativeText), action->property("also").toString());
    listed_.insert(action);
  }

  void takePanels() {
    for (Workspace* workspace : window_->workspaces()->all()) {
      for (Panel* panel : workspace->panels()) {
        const QString name = panel->title(), group = workspace->name();
        add("Panel: " + name, group, [window = window_, workspace, panel] { goTo(window, workspace, panel); });
        const auto is_listed = [&](const PaletteCommand& command) { return command.title == "Explain " + name; };
        if (std::ranges::none_of(commands_, is_listed))  // a panel may be in several workspaces
          add("Explain " + name, group,
              [workspace, panel] { showExplanation(workspace, panel->title(), panel->explain()); });
      }
    }
  }

  static void goTo(MainWindow* window, Workspace* workspace, Panel* panel) {
    window->workspaces()->bringUp(workspace, panel);
    panel->setFocus(Qt::ShortcutFocusReason);
  }

  // Adds the metrics. Their commands open their cards.
  void takeMetrics() {
    for (int m = 0; m < kNumMetrics; ++m) {
      const auto metric = static_cast<Metric>(m);
      const MetricInfo& info = metric_info(metric);
      add(
          metricName(metric), "Metric",
          [window = window_, metric, &info] {
            const QPoint middle = window->mapToGlobal(window->rect().center());
            ExplainCard* card =
                ExplainCard::open(window, middle, metricName(metric), [&info] { return metricCard(info); });
            QObject::connect(card, &ExplainCard::knobRequested, window->liveSettings(), &LiveSettings::focus);
          },
          {}, QString(info.key));
    }
  }

  // Adds the settings. Their commands show where the settings can be changed.
  void takeSettings() {
    const RunConfig config = window_->session()->hasConfig() ? window_->session()->config() : RunConfig();
    for (const ConfigField& field : config_fields())
      if (is_offered(field, config))
        add(
            printedText(settingLabel(QString::fromStdString(field.key)).toStdString()), "Setting",
            [window = window_, key = QString::fromStdString(field.key)] { window->liveSettings()->focus(key); }, {},
            QString::fromStdString(field.key));
  }

  void takeLessons() {
    int number = 0;
    for (const std::string& name : lesson_names()) {
      const Lesson lesson = find_lesson(name).lesson;
      add(QString("Lesson %1: %2").arg(++number).arg(QString::fromStdString(lesson.title)), "Lesson",
          [window = window_, name] { window->lessons()->start(QString::fromStdString(name)); });
    }
    for (const std::string& name : exhibit_names())
      add("Fault: " + printedText(find_lesson(name).lesson.title), "Lesson",
          [window = window_, name] { window->lessons()->start(QString::fromStdString(name)); });
  }

  void takePagesWithWords() {
    commands_.emplace_back().typed_commands = [window = window_](const QString& typed) {
      std::vector<PaletteCommand> found;
      if (typed.size() < kShortestSearch) return found;
      for (const ManualPage& page : manualPagesWith(typed).mid(0, kPagesWithWords))
        if (page.places > 0)
          found.push_back({"In the manual: " + page.title, "Manual", countedText(to_int(page.places), "place"),
                           [window, typed, page] { openManualPage(window, page.path)->searchFor(typed); },
                           page.words.join(' ')});
      return found;
    };
  }

  // Adds the number formats with scales. Their commands open their cards.
  void takeFormats() {
    for (const NamedFormat& named : named_formats()) {
      const QString title = operandFormatLabel(named.format), card = formatCard(named.format);
      if (card.isEmpty()) continue;
      add(
          title, "Format",
          [window = window_, title, card] {
            ExplainCard::open(window, window->mapToGlobal(window->rect().center()), title, [card] { return card; });
          },
          {}, named.name);
    }
  }

  void takeFindings() {
    for (const Finding& finding : window_->findings()->findings())
      add("Finding: " + printedText(finding.title), "Finding",
          [window = window_, id = QString::fromStdString(finding_id(finding))] {
            window->workspaces()->openFinding(id);
          });
  }

  // Adds the rows of the glossary. Their commands show the meaning.
  void takeTerms() {
    QFile glossary(manualPage("glossary.md"));
    if (!glossary.open(QIODevice::ReadOnly)) return;
    static const QRegularExpression kRow(QStringLiteral(R"(^\| ([^|]+) \|([^|]*)\| ([^|]+) \|$)"),
                                         QRegularExpression::MultilineOption);
    for (auto rows = kRow.globalMatch(QString::fromUtf8(glossary.readAll())); rows.hasNext();) {
      const auto row = rows.next();
      const QString term = row.captured(1).remove('`'), other_names = row.captured(2).remove('`').trimmed(),
                    meaning = row.captured(3);
      if (term == QLatin1String("term")) continue;
      add(
          "Term: " + term, "Term",
          [window = window_, term, meaning] { showExplanation(window, term, meaning.toHtmlEscaped()); }, {},
          other_names);
    }
  }

  // Adds the steps and the MoE layers of the active run, and the experts of all layers, by their numbers.
  void takePlaces() {
    if (!window_->selection()->history()) return;
    const auto add_place = [&](const QString& name, const QString& group, auto has,
                               std::function<void(std::int64_t)> show) {
      commands_.emplace_back().typed_commands = [=](const QString& typed) {
        std::vector<PaletteCommand> found;
        if (const std::int64_t number = numberIn(typed); number >= 0 && has(number))
          found.push_back(
              {name + u' ' + formatCount(number), group, {}, [=] { show(number); }, QString::number(number)});
        return found;
      };
    };
    Selection* selection = window_->selection();
    add_place(
        "Go to " + selection->stepWord(), "Time",
        [selection](std::int64_t step) {
          const StepRange steps = selection->history()->steps();
          return step >= steps.first && step <= steps.last;
        },
        [selection](std::int64_t step) { goToStep(selection, step); });
    add_place(
        "Layer", "Layer",
        [run = selection->history()->info()](std::int64_t layer) { return std::ranges::count(run.moe_layers, layer); },
        [selection](std::int64_t layer) { selection->setLayer(to_int(layer)); });
    ClusterWorkspace* cluster = window_->workspaces()->cluster();
    add_place(
        "EP", "Cluster", [cluster](std::int64_t degree) { return cluster->stepTime()->offers(to_int(degree)); },
        [window = window_, cluster](std::int64_t degree) {
          cluster->stepTime()->setDegree(to_int(degree));
          goTo(window, cluster, cluster->stepTime());
        });
    commands_.emplace_back().typed_commands = [window = window_](const QString& typed) {
      return experts(window, numberIn(typed));
    };
  }

  // Returns the experts of a number, that of the selected layer first, with their loads in the last steps.
  static std::vector<PaletteCommand> experts(MainWindow* window, std::int64_t number) {
    Selection* selection = window->selection();
    const RunInfo& run = selection->history()->info();
    std::vector<PaletteCommand> found;
    if (number < 0 || number >= run.n_experts) return found;
    std::vector<int> layers = run.moe_layers;
    std::ranges::stable_partition(layers, [&](int layer) { return layer == selection->layer(); });
    for (const int layer : layers) {
      const std::vector<float> loads = layer_window(*selection->history(), layer, selection->step()).utilisation;
      const QString load =
          number < std::ssize(loads) ? QString("%1 \u00d7 fair share").arg(formatValue(loads[number], 3)) : QString();
      found.push_back({QString("Expert %1 of layer %2").arg(number).arg(layer),
                       "Expert",
                       load,
                       [window, selection, layer, number] {
                         selection->setLayer(layer);
                         selection->setExpert(to_int(number));
                         RouterWorkspace* router = window->workspaces()->router();
                         goTo(window, router, router->findChild<ExpertPanel*>());
                       },
                       {}});
    }
    return found;
  }

  MainWindow* window_;
  QSet<QAction*> listed_;
  std::vector<PaletteCommand> commands_;
};

}  // namespace

std::vector<PaletteCommand> commandsOf(MainWindow* window) {
  return Collector(window).all();
}

void openPalette(MainWindow* window) {
  (new CommandPalette(commandsOf(window), window))->show();
}

}  // namespace moescope
