// Run > Matrix units: what it offers, keeps and says, and what goes before it.
#include <QAction>
#include <QLabel>
#include <QMainWindow>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QPointer>
#include <QPushButton>
#include <QStatusBar>
#include <QTemporaryDir>
#include <QTest>

#include "app/actions/unit_actions.h"
#include "app/look/messages.h"
#include "app/session/run_session.h"
#include "app/session/settings.h"
#include "app/window/main_window.h"
#include "core/config/config_toml.h"

using namespace moescope;

namespace {

// A processor with the units that this process does not use, and without the others.
std::vector<MatrixUnitChoice> otherProcessor() {
  const MatrixUnit used = matrix_unit();
  const MatrixUnit other = used == MatrixUnit::amx ? MatrixUnit::avx512_bf16 : MatrixUnit::amx;
  std::vector<MatrixUnitChoice> choices;
  for (const std::string_view name : kMatrixUnitChoices) {
    const bool has = name == "auto" || name == kMatrixUnitNames[static_cast<int>(other)];
    choices.push_back({name, has ? other : used, has || name == "off" ? "" : "this processor has no such units"});
  }
  return choices;
}

// A bare window with the menu.
struct Menu {
  QMainWindow window;
  RunSession session;
  Messages messages{&window};
  UnitActions actions;

  explicit Menu(const UnitsOfStart& start = {}, std::vector<MatrixUnitChoice> choices = otherProcessor())
      : actions(&session, &messages, start, std::move(choices)) {
    actions.addMenuTo(window.menuBar()->addMenu("&Run"));
    window.show();
  }
  QMenu* menu() const { return window.findChild<QMenu*>("matrix_units"); }
  QAction* action(const QString& name) const { return menu()->findChild<QAction*>(name); }
  QMessageBox* question() const { return window.findChild<QMessageBox*>("restart_for_units"); }
};

QString other() {
  return matrix_unit() == MatrixUnit::amx ? "avx512_bf16" : "amx";
}
QString titleOfOther() {
  return matrix_unit() == MatrixUnit::amx ? "AVX-512 BF16" : "AMX";
}

}  // namespace

class MatrixUnitsTest : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir home_;

 private slots:
  void initTestCase() {
    for (const char* name : {"XDG_DATA_HOME", "XDG_CONFIG_HOME"}) qputenv(name, home_.path().toUtf8());
  }
  void init() {
    settings().clear();
    qunsetenv(kMatrixUnitsVariable);
  }

  void theSettingIsKeptAndNonsenseIsAutomatic() {
    QCOMPARE(keptMatrixUnits(), QString("auto"));
    keepMatrixUnits("off");
    QCOMPARE(keptMatrixUnits(), QString("off"));
    settings().setValue("matrix_units", "tensor_cores");
    QCOMPARE(keptMatrixUnits(), QString("auto"));
  }

  void commandLineAndEnvironmentGoBeforeItAndSaySo() {
    keepMatrixUnits("off");
    UnitsOfStart start = chooseKeptMatrixUnits("auto");
    QCOMPARE(start.by, QString("--matrix-units"));
    QVERIFY2(start.note.contains("--matrix-units says auto") && start.note.contains("Matrix units is off"),
             qPrintable(start.note));
    QCOMPARE(chooseKeptMatrixUnits("off").note, QString());
    qputenv(kMatrixUnitsVariable, "auto");
    start = chooseKeptMatrixUnits({});
    QCOMPARE(start.by, QString(kMatrixUnitsVariable));
    QVERIFY2(start.note.contains("MOESCOPE_MATRIX_UNITS says auto"), qPrintable(start.note));
    qunsetenv(kMatrixUnitsVariable);
    start = chooseKeptMatrixUnits({});
    QVERIFY(start.by.isEmpty() && start.note.isEmpty());
    QCOMPARE(qEnvironmentVariable(kMatrixUnitsVariable), QString("off"));
  }

  // The settings of another machine.
  void aKeptUnitThatIsNotHereIsNamed() {
    for (const MatrixUnitChoice& choice : matrix_unit_choices()) {
      if (choice.lacks.empty()) continue;
      keepMatrixUnits(QString::fromStdString(std::string(choice.name)));
      const UnitsOfStart start = chooseKeptMatrixUnits({});
      QVERIFY2(start.note.contains(QString::fromStdString(choice.lacks)), qPrintable(start.note));
      QVERIFY(!qEnvironmentVariableIsSet(kMatrixUnitsVariable));
    }
  }

  void whatTheProcessorLacksIsGreyedWithTheReason() {
    Menu m;
    int greyed = 0;
    for (const MatrixUnitChoice& choice : otherProcessor()) {
      QAction* action = m.action("units_" + QString::fromStdString(std::string(choice.name)));
      QVERIFY(action && action->isCheckable());
      QCOMPARE(action->isEnabled(), choice.lacks.empty());
      QCOMPARE(action->isChecked(), choice.name == "auto");
      greyed += !action->isEnabled();
      if (!action->isEnabled()) QCOMPARE(action->toolTip(), QString("This processor has no such units"));
    }
    QCOMPARE(greyed, 1);
    QVERIFY(m.menu()->toolTipsVisible());
    QCOMPARE(m.action("units_auto")->text(), "Automatic: " + titleOfOther() + " here");
  }

  void anotherUnitIsKeptAndARestartOffered() {
    Menu m;
    m.action("units_" + other())->trigger();
    QCOMPARE(keptMatrixUnits(), other());
    QVERIFY(m.action("units_" + other())->isChecked() && !m.action("units_auto")->isChecked());
    QPointer<QMessageBox> question = m.question();
    QVERIFY(question);
    QVERIFY2(question->text().contains(titleOfOther() + " is used from the next start on"),
             qPrintable(question->text()));
    QVERIFY(!question->text().contains("run in training"));
    QVERIFY(question->findChild<QPushButton*>("restart_now"));
    question->reject();
    QTRY_VERIFY(!question);
    QVERIFY(m.window.isVisible());
  }

  // Nothing is there to restart for.
  void whatIsInUseAlreadyIsKeptOnly() {
    const auto choices = matrix_unit_choices();
    Menu m({}, choices);
    keepMatrixUnits("off");
    m.action("units_auto")->trigger();
    QCOMPARE(keptMatrixUnits(), QString("auto"));
    if (choices.front().unit != matrix_unit()) QSKIP("started with other units than the processor's own");
    QVERIFY(!m.question());
    QVERIFY2(m.window.statusBar()->currentMessage().contains("in use already"),
             qPrintable(m.window.statusBar()->currentMessage()));
  }

  // A run that is not recorded would be lost.
  void theOfferSaysWhatBecomesOfTheRun() {
    Menu m;
    RunConfig config = load_preset("nano").config;
    for (const QString& path : {QString(), home_.filePath("r.moescope")}) {
      m.session.start({config}, path);
      QTRY_VERIFY(m.session.isLive() && m.session.path() == path);
      m.action("units_" + other())->trigger();
      QPointer<QMessageBox> question = m.question();
      QVERIFY(question);
      QVERIFY2(question->text().contains(path.isEmpty() ? "is not recorded" : "opens its recording"),
               qPrintable(question->text()));
      question->reject();
      QTRY_VERIFY(!question);
    }
  }

  void theWindowShowsWhoChose() {
    const QString note = "--matrix-units says off, which holds for this start";
    MainWindow window(false, {}, {"--matrix-units", note});
    QAction* used = window.findChild<QAction*>("units_in_use");
    QVERIFY(used && !used->isEnabled());
    QVERIFY2(used->text().endsWith(", by --matrix-units"), qPrintable(used->text()));
    QCOMPARE(used->toolTip(), note);
    QVERIFY(window.statusBar()->currentMessage().isEmpty());  // pictures are taken without it
    MainWindow of_a_person(true, {}, {"--matrix-units", note});
    QCOMPARE(of_a_person.statusBar()->currentMessage(), note);
  }
};

QTEST_MAIN(MatrixUnitsTest)
#include "qt_matrix_units.moc"
