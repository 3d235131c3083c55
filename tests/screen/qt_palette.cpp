// The command palette, recent files, the saved layout, and recordings of a crashed program.
#include <signal.h>

#include <QDir>
#include <QFileInfo>
#include <QLabel>
#include <QLineEdit>
#include <QListView>
#include <QListWidget>
#include <QMessageBox>
#include <QProcess>
#include <QPushButton>
#include <QScrollArea>
#include <QScrollBar>
#include <QSignalSpy>
#include <QStatusBar>
#include <QTemporaryDir>
#include <QTest>
#include <QTextBlock>
#include <QTextBrowser>

#include "app/actions/file_actions.h"
#include "app/actions/run_control.h"
#include "app/help/manual.h"
#include "app/look/shortcut_sheet.h"
#include "app/session/crash_watch.h"
#include "app/session/settings.h"
#include "app/setup/setup_drawer.h"
#include "app/window/command_palette.h"
#include "app/window/commands.h"
#include "app/window/main_window.h"
#include "app/workspaces/window_layout.h"
#include "app/workspaces/workspace.h"
#include "app/workspaces/workspace_tabs.h"
#include "app/workspaces/workspaces.h"
#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/files/assets.h"
#include "core/lessons/lesson.h"
#include "core/recording/recording.h"
#include "tests/support/laid_out.h"
#include "tests/support/screen_test.h"
#include "tests/support/takes_keys.h"
#include "widgets/panel/explain_card.h"

using namespace moescope;

class PaletteTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

  static CommandPalette* paletteOf(MainWindow& window) { return window.findChild<CommandPalette*>("command_palette"); }

 private slots:
  void initTestCase() {
    for (const char* name : {"XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"})
      qputenv(name, home_.path().toUtf8());
    QCoreApplication::setApplicationName("moescope");  // determines the folder of recordings
  }

  void wordsAreFoundInAnyOrder() {
    CommandList list({{"Panel: Expert load", "Router", {}, {}, {}},
                      {"Panel: Blood and load", "Router", {}, {}, {}},
                      {"Open unbalanced_bf16.jsonl", "Recent file", {}, {}, {}},
                      {"Panel: Balance", "Router", {}, {}, "bias"}},
                     nullptr);
    QCOMPARE(found(list, "load exp"), QStringList{"Panel: Expert load"});
    QCOMPARE(list.index(0).data(CommandList::kMatched).toList(), (QVariantList{14, 15, 16, 17, 7, 8, 9}));
    QCOMPARE(found(list, "load").front(), QString("Panel: Expert load"));  // the shorter title
    QCOMPARE(found(list, "balance"), (QStringList{"Panel: Balance", "Open unbalanced_bf16.jsonl"}));
    QCOMPARE(found(list, "router bias"), QStringList{"Panel: Balance"});
    found(list, "daol");
    QVERIFY(!list.hasMatch());
  }

  void everyPresetPanelAndActionIsListed() {
    MainWindow window(false);
    const std::vector<PaletteCommand> commands = commandsOf(&window);
    const auto has = [&](const QString& title, const QString& keys = {}) {
      return std::ranges::any_of(commands, [&](const PaletteCommand& command) {
        return command.title == title && (keys.isEmpty() || command.keys == keys);
      });
    };
    for (const std::string& name : preset_names())
      QVERIFY2(has("Start a preset: " + QString::fromStdString(name)), name.c_str());
    for (const std::string& name : comparison_preset_names())
      QVERIFY2(has("Start a preset: " + QString::fromStdString(name)), name.c_str());
    int place = 0, panels = 0;
    for (const Workspace* workspace : window.workspaces()->all()) {
      ++place;
      QVERIFY2(has(QString("%1 %2").arg(place).arg(workspace->name()), QString("Ctrl+%1").arg(place)),
               qPrintable(workspace->name()));
      for (const Panel* panel : workspace->panels()) {
        ++panels;
        QVERIFY2(has("Panel: " + panel->title()), qPrintable(panel->title()));
      }
    }
    QVERIFY(panels > 20);
    int number = 0;
    for (const std::string& name : lesson_names()) {
      const QString title =
          QString("Lesson %1: %2").arg(++number).arg(QString::fromStdString(find_lesson(name).lesson.title));
      QVERIFY2(has(title), qPrintable(title));
    }
    QVERIFY(has("Copy the panel", "Ctrl+C"));
    QVERIFY(!has("Undo"));  // nothing can be undone yet
    QVERIFY(has("Theme: Switch dark and light", "Alt+M"));
    QVERIFY(has("Keep a checkpoint now", "Ctrl+Shift+K"));
    for (const PaletteCommand& command : commands)
      QVERIFY((command.run || command.typed_commands) && !command.title.contains('&'));
  }

  void metricsAndSettingsAreFound() {
    MainWindow window(false);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    const std::vector<PaletteCommand> commands = commandsOf(&window);
    const auto find = [&](const QString& kind, const QString& also) {
      return std::ranges::find_if(
          commands, [&](const PaletteCommand& command) { return command.group == kind && command.also == also; });
    };
    for (int m = 0; m < kNumMetrics; ++m)
      QVERIFY2(find("Metric", metric_info(static_cast<Metric>(m)).key) != commands.end(),
               metric_info(static_cast<Metric>(m)).key);
    for (const ConfigField& field : config_fields())
      QVERIFY2((find("Setting", QString::fromStdString(field.key)) != commands.end()) == is_offered(field, RunConfig{}),
               field.key.c_str());
    find("Metric", "max_vio")->run();
    auto* card = window.findChild<ExplainCard*>();
    QVERIFY(card && card->isVisible());
    QVERIFY2(card->text().contains("fullest"), qPrintable(card->text()));
    find("Setting", "model.n_experts")->run();
    QTRY_VERIFY(window.findChild<SetupDrawer*>()->isVisible());
    // The palette also finds a setting by its name.
    CommandList list(commands, nullptr);
    list.setQuery("bias_update_rate");
    QCOMPARE(list.at(0).also, QString("router.bias_update_rate"));
  }

  static QStringList found(CommandList& list, const QString& query) {
    list.setQuery(query);
    QStringList titles;
    for (int row = 0; row < list.rowCount(); ++row) titles << list.at(row).title;
    return titles;
  }

  // Every word of the screen that a synonym stands for names something, and the synonym leads to it.
  void everySynonymLeadsToItsWords() {
    MainWindow window(false);
    CommandList list(commandsOf(&window), nullptr);
    QStringList astray;
    for (const QString& line : QString::fromStdString(std::string(asset("palette/synonyms.txt"))).split('\n')) {
      if (line.startsWith('#') || line.isEmpty()) continue;
      const QString word = line.section('=', 0, 0).trimmed();
      const QStringList led_to = found(list, word);
      for (const QString& synonym : synonymsOf(word).words) {
        const QStringList named = found(list, synonym);
        if (!list.hasMatch() || !led_to.contains(named.front())) astray << line + ": " + synonym;
      }
    }
    QVERIFY2(astray.isEmpty(), qPrintable(astray.join('\n')));
    for (const auto& [word, title] : {std::pair{"home", "Start page"},
                                      {"dead", "Unused experts"},
                                      {"uneven", "Panel: Balance"},
                                      {"tuto", "All lessons"},
                                      {"hotkeys", "Keyboard and mouse"},
                                      {"imbalance", "Panel: Cost of this imbalance"}})
      QVERIFY2(found(list, word).mid(0, 2).contains(title), qPrintable(found(list, word).mid(0, 5).join("; ")));
    QCOMPARE(found(list, "home").front(), QString("Start page"));
    const QStringList lessons = found(list, "lessons");
    const auto is_page = [](const QString& title) {
      return title.startsWith("Manual: ") || title.startsWith("In the manual: ");
    };
    QVERIFY(is_page(lessons.back()) && std::ranges::is_partitioned(lessons, std::not_fn(is_page)));
    QVERIFY2(found(list, "fp8").front().contains("FP8"), qPrintable(found(list, "fp8").mid(0, 5).join("; ")));
  }

  // What a new user types, what the palette should list first (its beginning), and the page that the manual should
  // open.
  void whatNewUsersTypeFindsItsAnswerFirst() {
    struct Query {
      const char *typed, *command, *page;
    };
    static constexpr Query kQueries[] = {
        {"formats", "MXFP8", "Number formats"},
        {"plan", "Panel: Expert placement", "Cluster model"},
        {"underflow", "Term: flushed to zero", "Glossary"},
        {"what is an expert", "Term: expert", ""},
        {"compare two runs", "Compare with...", "Comparing runs"},
        {"compare runs", "Compare with...", "Comparing runs"},
        {"generate text", "Panel: Sample", ""},
        {"router entropy", "Score entropy", "Router and balance"},
        {"block size 32 scale", "Panel: Block scales", ""},
        {"dead", "Unused experts", "Glossary"},
        {"collapse", "Lesson 2: Rich get richer", "Router and balance"},
        {"imbalance", "Panel: Balance", "Router and balance"},
        {"uneven", "Panel: Balance", "Router and balance"},
        {"overflow", "Panel: Block microscope", "Glossary"},
        {"fp8", "FP8", "Number formats"},
        {"mxfp8", "MXFP8", "Number formats"},
        {"nvfp4", "NVFP4 E2M1, blocks of 16", "Number formats"},
        {"home", "Start page", "The window"},
        {"all-to-all", "Panel: All-to-all", "Cluster model"},
        {"a2a", "Panel: All-to-all", "Cluster model"},
        {"dispatch", "Panel: All-to-all", "Cluster model"},
        {"combine", "Panel: All-to-all", "Cluster model"},
        {"aux loss", "Auxiliary loss", "Router and balance"},
        {"capacity drop", "Beyond capacity", "Router and balance"},
        {"dropped tokens", "Beyond capacity", "Router and balance"},
        {"grouped gemm", "Panel: Time of a step", "Glossary"},
        {"microscope", "Panel: Block microscope", "Precision and microscaling"},
        {"problem set", "All lessons", "Lessons for a course"},
        {"dark mode", "Theme: Dark", "The window"},
        {"torchtitan", "Open...", "Logs of other programs"},
        {"wandb", "Open...", "Logs of other programs"},
        {"eplb", "Panel: Expert placement", "Cluster model"},
        {"hot expert", "Panel: Expert load", "Glossary"},
        {"outlier", "Panel: Block scale map", "Glossary"},
        {"tutorial", "All lessons", "First hour"},
        {"shortcuts", "Keyboard and mouse", "The window"},
        {"screenshot", "Save picture of the window", "The window"},
        {"huggingface", "Open...", "Checkpoints of other programs"},
        {"deepep", "Panel: DeepEP gain", "Cluster model"},
        {"entropy", "Entropy of load", "Router and balance"},
        {"skew", "Panel: Balance", "Router and balance"},
        {"perplexity", "Cross-entropy loss", "Glossary"},
        {"nan", "Panel: Findings", "Router and balance"},
        {"bits", "Panel: Block microscope", "Number formats"},
        {"expert parallel", "Panel: All-to-all", "Cluster model"},
        {"replicas", "Panel: Expert placement", "Cluster model"},
        {"what does E8M0 mean", "Term: E8M0", "Number formats"},
        {"SQNR meaning", "Term: SQNR", "Glossary"},
        {"fp4 vs fp8", "Start a preset: precisions", "Number formats"},
        {"mxfp4 vs nvfp4", "Start a preset: precisions", "Number formats"},
        {"largest value of E4M3", "Term: largest value", "Number formats"},
        {"how many bytes per block", "In the manual: Number", "Number formats"},
        {"block size", "Panel: What if", "Number formats"},
        {"bits per value in nvfp4", "In the manual: Number", "Number formats"},
        {"subnormals", "Panel: Block microscope", "Number formats"},
        {"round to nearest even", "In the manual: Number", "Number formats"},
        {"rounding of scales", "In the manual: Number", "Number formats"},
        {"stochastic rounding", "Rounding", "Number formats"},
        {"hadamard", "Hadamard rotation", "Precision and microscaling"},
        {"why does my expert get no tokens", "Unused experts", "Router and balance"},
        {"dead experts", "Unused experts", "Router and balance"},
        {"colapse of router", "In the manual: Router", "Router and balance"},
        {"load imbalence", "Panel: Balance", "Router and balance"},
        {"what is max violation", "MaxVio", "Router and balance"},
        {"bias update speed", "Bias update rate", "Router and balance"},
        {"loss free balancing", "Bias rule", "Router and balance"},
        {"top-k", "Experts per token", ""},
        {"change number of experts", "Expert count", ""},
        {"capacity factor", "Capacity factor", "Router and balance"},
        {"all to all", "Panel: All-to-all", "Cluster model"},
        {"EP", "Panel: All-to-all", "Cluster model"},
        {"expert paralellism", "Panel: All-to-all", "Cluster model"},
        {"slowest gpu", "Fullest rank", "Cluster model"},
        {"placement", "Panel: Expert placement", "Cluster model"},
        {"write placement file", "Panel: Expert placement", "Command line"},
        {"import megatron log", "Open...", "Logs of other programs"},
        {"load my own log", "Open...", "Logs of other programs"},
        {"export csv", "Export: Table of the panel", "Command line"},
        {"change seed", "Seed", "Comparing runs"},
        {"start training", "Start a preset", "First hour"},
        {"stop training", "Schedule length", "The window"},
        {"routing entropy", "Score entropy", "Router and balance"},
        {"dark theme", "Theme: Dark", "The window"},
        {"font size", "Projector view", "The window"},
        {"keyboard shortcuts", "Keyboard and mouse", "The window"},
        {"grading", "Manual: Lessons for a course", "Lessons for a course"},
        {"where are my files", "Open...", "The window"},
        {"which lesson for beginners", "All lessons", "Lessons for a course"},
        {"go home", "Start page", "The window"},
        {"undo zoom", "Fit all steps", ""},
        {"two runs side by side", "Compare with", "Comparing runs"},
        {"is the difference real", "Panel: Verdicts", "Comparing runs"},
        {"what is a twin", "Term: twin", "Comparing runs"},
        {"quantisation error", "Panel: Quantization error", "Precision and microscaling"},
        {"saturation", "Term: clipped", "Number formats"},
        {"own text", "Panel: Tokens", "Text and experts"},
        {"which expert takes a word", "Panel: Tokens", "Text and experts"},
        {"route my text", "Panel: Tokens", "Text and experts"},
        {"route a sentence", "Panel: Tokens", "Text and experts"},
        {"save the run", "Term: recording", "The window"},
        {"train a small model", "Start a preset: small", "First hour"},
        {"what does the gate do", "Router gate", "Router and balance"},
        {"how do i cite", "About MoEScope", "Sources"},
        {"version", "About MoEScope", ""},
        {"use gpu", "Manual: Cluster model", "Cluster model"},
        {"deepep gain", "Panel: DeepEP gain", ""},
        {"why is my gpu waiting", "Panel: Time of a step", "Cluster model"},
        {"tokens per second", "Panel: Time of a step", ""},
        {"bf16", "Term: BF16", ""},
        {"fp8 blockwise", "FP8 E4M3, blocks of 128", "Number formats"},
        {"rceil", "Term: scale rule", "Number formats"},
        {"nvlink", "Panel: All-to-all", "Cluster model"},
        {"larger text", "Projector view", "The window"},
        {"plan of a course", "Manual: Lessons for a course", "Lessons for a course"},
        {"start over", "Start a preset", ""},
        {"warmup", "Warm-up", ""},
        {"random seed", "Seed", ""},
        {"html report", "Export: Report", ""},
        {"save picture", "Save picture of the window", ""},
        {"comparison", "Compare with...", "Comparing runs"},
        {"all to all bytes", "In the manual: Cluster model", "Cluster model"},
        {"mxfp8 vs bf16", "Start a preset: precisions", ""},
        {"second run", "Compare with...", "Comparing runs"},
        {"expert never used", "Unused experts", "Router and balance"},
        {"same result twice", "Seed", ""},
        {"heat map of tokens", "Panel: Tokens", ""},
        {"gini", "MaxVio", "Router and balance"},
        {"wgrad", "Term: dgrad, wgrad", ""},
        {"router z-loss", "Router z-loss", ""},
        {"shared experts", "Shared experts", ""},
        {"token drop", "Token dropping", ""},
        {"what is a shared expert", "Term: shared expert", ""},
        {"what is an auxiliary loss", "Auxiliary loss", ""},
        {"what is underflow", "Term: flushed to zero", ""},
        {"what is stochastic rounding", "In the manual: Number formats", ""},
        {"how do experts specialise", "In the manual: Text and experts", ""},
        {"how do I write my own sentence", "Panel: Tokens", ""},
        {"make a figure for my slides", "Save picture", ""},
        {"noise twin", "Add a noise twin", ""},
        {"maxvio", "MaxVio (batch)", ""},
        {"lesson 3", "Lesson 3: ", ""},
        {"quit", "Quit", ""},
    };
    MainWindow window(false);
    CommandList list(commandsOf(&window), nullptr);
    QStringList missed;
    for (const Query& query : kQueries) {
      const QString command = found(list, query.typed).value(0);
      const QString page = manualHits(query.typed).pages.value(0).title;
      if (!command.startsWith(query.command))
        missed << QString("%1: %2, not %3").arg(query.typed, command, query.command);
      if (*query.page && page != query.page)
        missed << QString("%1 in the manual: %2, not %3").arg(query.typed, page, query.page);
    }
    for (const QString& text : missed) qInfo("%s", qPrintable(text));
    QCOMPARE(missed.size(), 0);
    QCOMPARE(manualPageOn("Text").title, QString("Text and experts"));
  }

  void formatsExpertsLayersAndFindingsAreFound() {
    MainWindow window(false);
    window.show();
    window.files()->open({QStringLiteral(MOESCOPE_TEST_DATA "/../assets/samples/unbalanced_bf16.jsonl")});
    QTRY_VERIFY_WITH_TIMEOUT(window.findings()->ready() && !window.findings()->findings().empty(), 60000);
    CommandList list(commandsOf(&window), nullptr);
    const auto run = [&](const QString& query) {
      list.setQuery(query);
      list.at(0).run();
    };
    for (const auto& [typed, first] : {std::pair{"why is expert 12 dead", "Expert 12 of layer "},
                                       {"EP 32", "EP 32"},
                                       {"stop at step 1000", "Go to step 1,000"},
                                       {"open two logs", "Add a log..."}})
      QVERIFY2(found(list, typed).value(0).startsWith(first), qPrintable(found(list, typed).mid(0, 5).join("; ")));
    run("expert 42");
    QCOMPARE(window.selection()->expert(), 42);
    QCOMPARE(window.workspaces()->current()->name(), QString("Router"));
    for (const int moe_layer : window.selection()->history()->info().moe_layers) {
      const QString title = QString("Expert 42 of layer %1").arg(moe_layer);
      QVERIFY2(found(list, "expert 42").contains(title), qPrintable(title));
    }
    QVERIFY(list.index(0).data(CommandList::kKeys).toString().endsWith("fair share"));
    QVERIFY(found(list, "dead").contains("Term: dead expert"));
    const int layer = window.selection()->history()->info().moe_layers.back();
    run(QString("layer %1").arg(layer));
    QVERIFY2(window.selection()->layer() == layer, qPrintable(list.at(0).title));
    QVERIFY(!found(list, "expert").join(' ').contains("Expert 42"));  // single experts need a number
    for (const auto& [query, step] : {std::pair{"step 480", 480}, {"480", 480}, {"go to step 1,000", 1000}}) {
      run(query);
      QVERIFY2(window.selection()->step() == step, query);
    }
    QVERIFY(list.index(0).data().toString() == "Go to step 1,000");
    QVERIFY2(!found(list, "step 9999999").join(' ').contains("Go to step 9"), "the run has no such step");
    QVERIFY(!list.hasMatch());
    QVERIFY2(found(list, "mxfp4 e2m1").front().startsWith("MXFP4 E2M1"), qPrintable(list.at(0).title));
    list.at(0).run();
    QVERIFY(window.findChild<ExplainCard*>()->text().contains("E2M1"));
    window.workspaces()->bringUp("overview");
    QVERIFY2(found(list, "collapse").front().startsWith("Finding: "), qPrintable(list.at(0).title));
    const QString title = QString::fromStdString(window.findings()->findings().front().title);
    QVERIFY2(found(list, "finding " + title).front().startsWith("Finding: "), qPrintable(list.at(0).title));
    list.at(0).run();
    QCOMPARE(window.workspaces()->current()->name(), QString("Router"));
  }

  void aQuestionFindsWhatItsWordsName() {
    MainWindow window(false);
    CommandList list(commandsOf(&window), nullptr);
    QCOMPARE(found(list, "what is E8M0"), found(list, "E8M0"));
    QCOMPARE(manualPagesWith("what is E8M0").value(0).title, manualPagesWith("E8M0").value(0).title);
    QVERIFY(found(list, "read my own log").contains("Open..."));
    QVERIFY(found(list, "open log").contains("Open..."));
    QVERIFY(found(list, "which tokens does an expert take").contains("Panel: Tokens"));
    QVERIFY(found(list, "how MXFP8 rounds a block").contains("Panel: Block microscope"));
    QCOMPARE(manualPagesWith("homework").value(0).title, QString("Lessons for a course"));
  }

  void aMisspeltNameListsSimilarOnes() {
    MainWindow window(false);
    CommandList list(commandsOf(&window), nullptr);
    QVERIFY2(found(list, "glosary").contains("Glossary"), "a letter is missing");
    QVERIFY2(found(list, "glossery").contains("Glossary") && !list.hasMatch(), "a letter is wrong");
    QVERIFY2(found(list, "panel qqzz").contains("Panel: Expert load") && !list.hasMatch(), "a word is unknown");
    QVERIFY(found(list, "qqzzxx").isEmpty() && !list.hasMatch());
    // Return starts none of them, unless the user selects it.
    window.show();
    CommandPalette palette(commandsOf(&window), &window);
    palette.show();
    auto* query = palette.findChild<QLineEdit*>();
    auto* shown = palette.findChild<QListView*>();
    query->setText("glossery");
    QVERIFY(shown->model()->rowCount() > 0 && !shown->currentIndex().isValid());
    QTest::keyClick(query, Qt::Key_Return);
    QVERIFY(palette.isVisible());
    QTest::keyClick(query, Qt::Key_Down);
    QCOMPARE(shown->currentIndex().row(), 0);
    query->setText("glossary");
    QCOMPARE(shown->currentIndex().row(), 0);
  }

  void theSheetOfShortcutsIsGroupedAndFits() {
    MainWindow window(false);
    window.resize(984, 640);
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    QStringList names;
    int entries = 0;
    QSet<QString> keys;
    for (const ShortcutGroup& group : shortcutGroups(&window)) {
      names << group.name;
      for (const auto& [key, effect] : group.entries) {
        QVERIFY2(!effect.isEmpty(), qPrintable(key));
        ++entries;
      }
    }
    for (const char* name : {"File", "Edit", "Run", "View", "Lessons", "Help", "Plots"})
      QVERIFY2(names.contains(name), name);
    QVERIFY(entries > 30);
    showShortcutSheet(&window);
    auto* sheet = window.findChild<QDialog*>("text_dialog");
    QVERIFY(sheet && sheet->isVisible());
    QVERIFY(sheet->width() <= 984 && sheet->height() <= 640);
    QTRY_VERIFY(!sheet->findChild<QScrollArea*>()->verticalScrollBar()->isVisible());
  }

  void theManualIsReadInAWindow() {
    MainWindow window(false);
    window.show();
    window.workspaces()->bringUp("overview");
    QVERIFY(takesKeys(&window));
    QTest::keyClick(&window, Qt::Key_F1);
    auto* manual = window.findChild<ManualWindow*>();
    QVERIFY(manual && manual->isVisible());
    auto* text = manual->findChild<QTextBrowser*>();
    QVERIFY2(text->toPlainText().startsWith("First hour"), qPrintable(text->toPlainText().left(80)));
    QVERIFY(!text->toPlainText().contains("]("));

    emit text->anchorClicked(QUrl("logs.md#the-account-of-what-was-read"));
    QCOMPARE(text->textCursor().block().text(), QString("The account of what was read"));
    QCOMPARE(manual->findChild<QListWidget*>()->currentItem()->text(), QString("Logs of other programs"));
    text->backward();
    QVERIFY(text->toPlainText().startsWith("First hour"));

    auto* query = manual->findChild<QLineEdit*>();
    query->setText("forced balance");  // not on this page
    emit query->returnPressed();
    const QString hit = text->textCursor().block().text();
    QVERIFY2(hit.contains("forced") && hit.contains("balance"), qPrintable(hit));
    QVERIFY(!text->extraSelections().isEmpty());
    manual->searchFor("recipe megatron");  // the words need not follow each other
    QVERIFY2(text->textCursor().block().text().contains("recipe"), qPrintable(text->textCursor().block().text()));
    QVERIFY(text->toPlainText().contains("Megatron"));
    auto* missing = manual->findChild<QLabel*>();
    query->setText("glosary");
    emit query->returnPressed();
    QVERIFY2(missing->isVisible() && missing->text().endsWith("nearest: glossary"), qPrintable(missing->text()));
    QVERIFY(!text->extraSelections().isEmpty());
    query->setText("qqzzxx");
    emit query->returnPressed();
    QCOMPARE(missing->text(), QString("Not in the manual"));
    QVERIFY(missing->isVisible() && text->extraSelections().isEmpty());

    openManualPage(&window, manualPage("glossary.md"));
    QCOMPARE(window.findChildren<ManualWindow*>().size(), 1);
    QVERIFY(text->toPlainText().startsWith("Glossary"));
  }

  void tablesOfTheManualFitItsWindow() {
    MainWindow window(false);
    window.resize(1280, 800);
    window.show();
    for (const ManualPage& page : manualPages()) {
      auto* text = openManualPage(&window, page.path)->findChild<QTextBrowser*>();
      QApplication::processEvents();
      QVERIFY2(text->horizontalScrollBar()->maximum() == 0, qPrintable(page.title));
    }
  }

  void allPagesOfTheManualAreListed() {
    MainWindow window(false);
    const QList<ManualPage> pages = manualPages();
    for (const QString& file : QDir(manualFolder()).entryList({"*.md"}))
      QVERIFY2(file == "index.md" ||  // the list of pages
                   std::ranges::any_of(pages,
                                       [&](const ManualPage& page) { return QFileInfo(page.path).fileName() == file; }),
               qPrintable(file));
    const std::vector<PaletteCommand> commands = commandsOf(&window);
    for (const ManualPage& page : pages)
      QVERIFY2(std::ranges::any_of(
                   commands, [&](const PaletteCommand& command) { return command.title == "Manual: " + page.title; }),
               qPrintable(page.title));
  }

  void thePaletteWorksByKeyboardAlone() {
    MainWindow window(false);
    window.show();
    QVERIFY(takesKeys(&window));
    window.workspaces()->bringUp("overview");
    QTest::keyClick(&window, Qt::Key_K, Qt::ControlModifier);
    CommandPalette* palette = paletteOf(window);
    QVERIFY(palette && palette->isVisible());
    auto* query = palette->findChild<QLineEdit*>();
    auto* list = palette->findChild<QListView*>();
    QTest::keyClicks(query, "panel coact");
    QVERIFY(list->currentIndex().data().toString().startsWith("Panel: "));
    QTest::keyClick(query, Qt::Key_Down);
    QTest::keyClick(query, Qt::Key_Up);
    QCOMPARE(list->currentIndex().row(), 0);
    const QString chosen = list->currentIndex().data().toString();
    QTest::keyClick(query, Qt::Key_Return);
    QTRY_VERIFY(!paletteOf(window));
    QVERIFY2(chosen.toLower().contains("activation"), qPrintable(chosen));
    QTRY_COMPARE(window.workspaces()->current()->name(), QString("Text"));

    window.activateWindow();
    QVERIFY(takesKeys(&window));
    QTest::keyClick(&window, Qt::Key_K, Qt::ControlModifier);
    QVERIFY(paletteOf(window));
    auto* none = paletteOf(window)->findChild<QLabel*>();
    QVERIFY(!none->isVisible());
    QTest::keyClicks(paletteOf(window)->findChild<QLineEdit*>(), "qqzzxx");
    QVERIFY(none->isVisible() && none->text().endsWith("\"qqzzxx\""));
    QCOMPARE(paletteOf(window)->findChild<QListView*>()->model()->rowCount(), 0);
    QTest::keyClick(paletteOf(window)->findChild<QLineEdit*>(), Qt::Key_Escape);
    QTRY_VERIFY(!paletteOf(window));
  }

  void aMissingRecentFileIsTakenOffTheList() {
    MainWindow window(false);
    const QString gone = home_.filePath("gone.moescope");
    rememberRecentFile(gone);
    QVERIFY(recentFiles().contains(gone));
    window.files()->openRecent(gone);
    QVERIFY(!recentFiles().contains(gone));
    QVERIFY(window.statusBar()->currentMessage().contains("does not exist any more"));
  }

  void layoutIsKeptWithoutClosing() {
    {
      MainWindow window(true);
      window.show();
      QVERIFY(QTest::qWaitForWindowExposed(&window));
      QVERIFY(isLaidOut(&window));
      window.workspaces()->bringUp("router");
      window.workspaces()->overview()->docks().first()->hide();
      window.findChild<WindowLayout*>()->saveIfChanged();
      // There is no closeEvent, as if the process were killed.
    }
    MainWindow next(true);
    QCOMPARE(next.workspaces()->current()->name(), QString("Router"));
    QVERIFY(next.workspaces()->overview()->docks().first()->isHidden());
    next.show();
    next.findChild<WindowLayout*>()->setDefault();
    QVERIFY(!next.workspaces()->overview()->docks().first()->isHidden());
  }

  void aKilledProgramsRecordingIsOffered() {
    QProcess program;
    program.start(MOESCOPE_APP, {"--preset", "nano"});
    QVERIFY(program.waitForStarted());
    const QDir folder(recordingsFolder());
    QTRY_VERIFY_WITH_TIMEOUT(!folder.entryList({"*.moescope"}, QDir::Files).isEmpty(), 30000);
    const QString path = folder.filePath(folder.entryList({"*.moescope"}, QDir::Files).first());
    const auto stepsNow = [&] {
      try {
        return RecordingReader(path.toStdString()).load(0)->steps().last;
      } catch (const std::exception&) {
        return std::int64_t{-1};
      }
    };
    QTRY_VERIFY_WITH_TIMEOUT(stepsNow() > 20, 60000);
    QVERIFY(CrashWatch::takeCrashedRecordings().isEmpty());  // the program still runs
    const std::int64_t before = stepsNow();
    ::kill(static_cast<pid_t>(program.processId()), SIGKILL);
    QVERIFY(program.waitForFinished());
    QVERIFY(stepsNow() >= before);  // all written steps can be read

    MainWindow window(false);
    window.show();
    CrashWatch watch(window.session(), &window);
    connect(&watch, &CrashWatch::openRequested, window.files(),
            [&](const QString& recording) { window.files()->open({recording}); });
    watch.offerCrashedRecording();
    auto* question = window.findChild<QMessageBox*>("left_behind");
    QVERIFY(question);
    QSignalSpy opened(window.session(), &RunSession::opened);
    question->findChild<QPushButton*>("open_left_behind")->click();
    QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), 20000);
    QCOMPARE(window.session()->path(), path);
    QVERIFY(window.selection()->history()->steps().last >= before);
    QVERIFY(CrashWatch::takeCrashedRecordings().isEmpty());  // offered only once
  }

  void aClosedProgramLeavesNothingBehind() {
    {
      MainWindow window(false);
      CrashWatch watch(window.session(), &window);
      window.runControl()->setRecorded(true);
      QSignalSpy opened(window.session(), &RunSession::opened);
      window.runControl()->start(load_preset("nano").config, RunControl::Start::paused);
      QTRY_VERIFY_WITH_TIMEOUT(!opened.isEmpty(), 20000);
      QVERIFY(QDir(recordingsFolder() + "/running").entryList(QDir::Files).size() == 1);
    }
    QVERIFY(CrashWatch::takeCrashedRecordings().isEmpty());
  }
};

SCREEN_TEST(PaletteTest)
#include "qt_palette.moc"
