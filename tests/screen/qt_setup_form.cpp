// The set-up form, used with typed text and arrow keys: problems beside the fields, live fields.
#include <QComboBox>
#include <QDialogButtonBox>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSettings>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QToolButton>

#include "app/actions/run_costs.h"
#include "app/setup/compare_dialog.h"
#include "app/setup/field_editor.h"
#include "app/setup/setup_form.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "tests/support/screen_test.h"
#include "widgets/plots/axis.h"

using namespace moescope;

namespace {

struct FormWithKeys {
  SetupForm form;
  FormWithKeys() {
    form.resize(360, 900);
    form.setDraft(load_preset("small").config);
    form.show();
  }
  QLineEdit* line(const char* key) { return form.editor(key)->findChild<QLineEdit*>(); }
  void type(const char* key, const char* text) {
    line(key)->setFocus();
    line(key)->selectAll();
    QTest::keyClicks(line(key), text);
  }
  QString problemOf(const char* key) {  // text beside the field; empty if there is no problem
    const auto* label = form.findChild<QLabel*>(QString("problem_of_") + key);
    return label->isHidden() ? QString() : label->text();
  }
  bool startEnabled() { return form.findChild<QPushButton*>("start_new_run")->isEnabled(); }
};

}  // namespace

class SetupFormTest : public QObject {
  Q_OBJECT

 private slots:
  void rowsThatCannotMatterAreAway() {
    FormWithKeys shown;
    const auto is_shown = [&](const char* key) { return !shown.form.editor(key)->isHidden(); };
    QVERIFY(is_shown("router.bias_update_rate") && !is_shown("router.bias_soft_clamp"));
    QVERIFY(!is_shown("router.fault_stale_bias") && !is_shown("router.count_padding"));
    auto* find = shown.form.findChild<QLineEdit*>();
    for (QLineEdit* line : shown.form.findChildren<QLineEdit*>())
      if (line->accessibleName() == "Find a setting") find = line;
    find->setText("stale bias");
    QVERIFY(!is_shown("router.fault_stale_bias"));
    find->clear();
    RunConfig config = shown.form.draft();
    config.router.balance_rule = BalanceRule::smebu;
    config.router.fault_stale_bias = true;
    shown.form.setDraft(config);
    QVERIFY(is_shown("router.bias_soft_clamp") && is_shown("router.bias_momentum"));
    QVERIFY(is_shown("router.fault_stale_bias") && !is_shown("router.fault_recount"));
    config.router.balance_rule = BalanceRule::quantile_batch;
    shown.form.setDraft(config);
    QVERIFY(!is_shown("router.bias_soft_clamp") && !is_shown("router.bias_update_rate"));
    // A finding or a card can lead to any setting.
    QVERIFY(shown.form.showField("router.bias_update_rate"));
    QVERIFY(is_shown("router.bias_update_rate"));
  }

  void everyKeyHasAnEditorWithHelp() {
    SetupForm form;
    for (const ConfigField& field : config_fields()) {
      const FieldEditor* editor = form.editor(field.key);
      QVERIFY2(editor, field.key.c_str());
      QVERIFY2(editor->toolTip().contains(QString::fromStdString(field.help).left(20).toHtmlEscaped()),
               field.key.c_str());
      QVERIFY2(editor->toolTip().contains(inPrint(QString::fromStdString(allowed_text(field)).toHtmlEscaped())),
               field.key.c_str());
    }
  }

  void everyValueSurvivesItsEditor() {
    SetupForm form;
    for (const std::string& name : preset_names()) {
      const RunConfig config = load_preset(name).config;
      form.setDraft(config);
      for (const ConfigField& field : config_fields()) {
        const auto value = form.editor(field.key)->value();
        QVERIFY2(value && *value == field.get(config), (name + " " + field.key).c_str());
      }
      QCOMPARE(to_toml(form.draft()), to_toml(config));
      QVERIFY(form.findChild<QPushButton*>("start_new_run")->isEnabled());
    }
  }

  // The button of the field opens a table of GEMM classes and operands.
  void recipesOfOperandsAreChosenFromATable() {
    FormWithKeys f;
    f.type("precision.operands", "gate.x=bf16");
    QVERIFY2(f.problemOf("precision.operands").contains("router_gate"), qPrintable(f.problemOf("precision.operands")));
    f.type("precision.operands", "experts.W=mxfp4");
    f.form.editor("precision.operands")->findChild<QToolButton*>()->click();
    auto* table = f.form.window()->findChild<OperandsDialog*>("operands_dialog");
    QVERIFY(table);
    QCOMPARE(table->choice(GemmClass::experts, OperandRole::w)->currentData(), QVariant("mxfp4"));
    QComboBox* gradients = table->choice(GemmClass::attention, OperandRole::dy);
    gradients->setCurrentIndex(gradients->findData("mxfp8_e5m2_grad"));
    emit table->findChild<QDialogButtonBox*>()->accepted();
    QCOMPARE(f.form.draft().precision.operands, std::string("experts.W=mxfp4, attention.dY=mxfp8_e5m2_grad"));
    QCOMPARE(f.problemOf("precision.operands"), QString());
  }

  // The fields beside the recipe show what the recipe sets. A change of one of these fields sets the recipe to "own".
  void aPublishedRecipeFillsInItsNeighbours() {
    FormWithKeys f;
    const auto combo = [&](const char* key) { return f.form.editor(key)->findChild<QComboBox*>(); };
    const auto choose = [&](const char* key, const char* value) {
      combo(key)->setCurrentIndex(combo(key)->findData(value));
      emit combo(key)->activated(combo(key)->currentIndex());
    };
    QCOMPARE(combo("precision.published_recipe")->currentData(), QVariant("own"));
    choose("precision.published_recipe", "nvfp4_nvidia");
    QCOMPARE(combo("precision.experts")->currentText(), QString("NVFP4"));
    QCOMPARE(combo("precision.nvfp4_rule")->currentData(), QVariant("transformer_engine"));
    QCOMPARE(f.line("precision.layers_at_end_in_bf16")->text(), QString("1"));
    QCOMPARE(f.form.draft().precision.stochastic_operands, StochasticOperands::gradients);
    const auto words = [&] {
      QString all;
      for (const QLabel* label : f.form.findChildren<QLabel*>()) all += label->text();
      return all;
    };
    QVERIFY(words().contains("arXiv:2509.25149"));
    choose("precision.attention", "mxfp8_rceil");
    QCOMPARE(combo("precision.published_recipe")->currentData(), QVariant("own"));
    QCOMPARE(f.form.draft().precision.experts, Recipe::nvfp4);
    QVERIFY(f.startEnabled());
  }

  void typingShowsTheProblemAndForbidsTheStart() {
    FormWithKeys f;
    QVERIFY(f.startEnabled());
    f.type("router.top_k", "20");  // more than the 16 experts
    QVERIFY(f.problemOf("router.top_k").contains("16"));
    QVERIFY(!f.startEnabled());
    f.type("router.top_k", "4");
    QCOMPARE(f.problemOf("router.top_k"), QString());
    QVERIFY(f.startEnabled());
    QCOMPARE(f.form.draft().router.top_k, 4);
  }

  void aHalfTypedNumberIsToldNotClamped() {
    FormWithKeys f;
    f.type("optimizer.lr", "1e-");
    QVERIFY(f.problemOf("optimizer.lr").contains("1e-"));
    QVERIFY(!f.startEnabled());
    f.type("optimizer.lr", "7");  // above the range
    QVERIFY(!f.problemOf("optimizer.lr").isEmpty());
    QCOMPARE(f.line("optimizer.lr")->text(), QString("7"));
    f.type("optimizer.lr", "1e-3");
    QVERIFY(f.startEnabled());
    QCOMPARE(f.form.draft().optimizer.lr, 1e-3);
  }

  void lettersNeverReachANumber() {
    FormWithKeys f;
    f.type("data.batch", "1x6r");
    QCOMPARE(f.line("data.batch")->text(), QString("16"));
  }

  void liveFieldsOfAnOpenRunGoOutAtOnce() {
    FormWithKeys f;
    const RunConfig open = f.form.draft();
    f.form.setOpenRun(&open);
    QSignalSpy live(&f.form, &SetupForm::liveChangeRequested);
    f.type("router.bias_update_rate", "0.01");
    QCOMPARE(live.count(), 0);  // not requested at every key
    QTest::keyClick(f.line("router.bias_update_rate"), Qt::Key_Return);
    QCOMPARE(live.count(), 1);
    QVERIFY(*static_cast<const Setting*>(live[0][0].constData()) == &RouterConfig::bias_update_rate);
    QCOMPARE(std::get<double>(live[0][1].value<ConfigValue>()), 0.01);
    f.type("model.dim", "64");  // not a live setting: changes the draft only
    QTest::keyClick(f.line("model.dim"), Qt::Key_Return);
    QCOMPARE(live.count(), 1);
    QCOMPARE(f.form.draft().model.dim, 64);
  }

  // The mark is beside the setting, or at the header of a group whose settings all need a new run.
  void whatNeedsANewRunIsMarked() {
    FormWithKeys f;
    const RunConfig open = f.form.draft();
    const auto marks = [&] {
      int marks = 0;
      for (const QLabel* label : f.form.findChildren<QLabel*>())
        marks += label->isVisible() && label->toolTip() == "Needs a new run";
      return marks;
    };
    QCOMPARE(marks(), 0);
    f.form.setOpenRun(&open);
    int headers = 0;
    for (const QToolButton* header : f.form.findChildren<QToolButton*>())
      headers += header->toolTip() == "These settings need a new run";
    QVERIFY(headers > 0);
    for (QToolButton* header : f.form.findChildren<QToolButton*>())
      if (header->isCheckable()) header->setChecked(true);
    QVERIFY(marks() > 0);
  }

  // The unit is hidden if it would cover the number.
  void aUnitGivesWayToALongNumber() {
    NumberEdit edit(false, 0, 1);
    edit.setUnit("per step");
    edit.setNumber(0.001);
    edit.resize(140, 28);
    edit.setVisible(true);
    const auto* unit = edit.findChild<QLabel*>();
    QVERIFY(unit->isVisible());
    edit.setNumber(0.00012345678912);
    QVERIFY(!unit->isVisible());
  }

  void startHandsOutTheDraft() {
    FormWithKeys f;
    QSignalSpy start(&f.form, &SetupForm::startRequested);
    f.type("model.n_experts", "32");
    QTest::mouseClick(f.form.findChild<QPushButton*>("start_new_run"), Qt::LeftButton);
    QCOMPARE(start.count(), 1);
    QCOMPARE(start[0][0].value<RunConfig>().model.n_experts, 32);
  }

  void stepsSuitTheScale_data() {
    QTest::addColumn<double>("from");
    QTest::addColumn<double>("max");
    QTest::addColumn<double>("up");
    QTest::addColumn<double>("down");
    QTest::newRow("rate") << 1e-3 << 1.0 << 2e-3 << 5e-4;
    QTest::newRow("between") << 3e-3 << 1.0 << 5e-3 << 2e-3;
    QTest::newRow("tiny") << 1e-4 << 1.0 << 2e-4 << 0.0;
    QTest::newRow("zero") << 0.0 << 1.0 << 1e-4 << 0.0;
    QTest::newRow("share") << 0.9 << 1.0 << 0.95 << 0.85;
    QTest::newRow("large") << 10000.0 << 1e8 << 20000.0 << 5000.0;
  }
  void stepsSuitTheScale() {
    QFETCH(double, from);
    QFETCH(double, max);
    QFETCH(double, up);
    QFETCH(double, down);
    QCOMPARE(nextReal(from, 1, max), up);
    QCOMPARE(nextReal(from, -1, max), down);
  }

  void wholeStepsSuitTheScale() {
    QCOMPARE(nextWhole(2, 1), 3);
    QCOMPARE(nextWhole(128, 1), 144);
    QCOMPARE(nextWhole(384, -1), 352);
    QCOMPARE(nextWhole(2000, 1), 2100);
    QCOMPARE(nextWhole(0, -1), -1);
  }

  void arrowKeysStepWithinTheRange() {
    NumberEdit edit(false, 0, 1);
    edit.setNumber(5e-6);
    QSignalSpy committed(&edit, &NumberEdit::committed);
    QTest::keyClick(&edit, Qt::Key_Up);
    QCOMPARE(*edit.number(), 1e-5);
    QTRY_VERIFY_WITH_TIMEOUT(!committed.isEmpty(), 20000);
    edit.setNumber(1);
    QTest::keyClick(&edit, Qt::Key_Up);
    QCOMPARE(*edit.number(), 1.0);
  }

  void whatTheBiasRuleDoesNotReadCannotBeEdited() {
    FormWithKeys f;
    RunConfig config = load_preset("nano").config;
    f.form.setDraft(config);
    QVERIFY(f.form.editor("router.bias_update_rate")->isEnabled());
    QVERIFY(!f.form.editor("router.quantile_ema")->isEnabled());
    config.router.balance_rule = BalanceRule::quantile_microbatch;
    f.form.setDraft(config);
    QVERIFY(f.form.editor("router.quantile_ema")->isEnabled());
    const FieldEditor* rate = f.form.editor("router.bias_update_rate");
    QVERIFY(!rate->isEnabled());
    QVERIFY2(rate->toolTip().contains("router.balance_rule = sign"), qPrintable(rate->toolTip()));
    config.router.balance_rule = BalanceRule::proportional;
    f.form.setDraft(config);
    QVERIFY(f.form.editor("router.bias_update_rate")->isEnabled());
    QVERIFY(!f.form.editor("router.count_format")->isEnabled());
    QVERIFY(!f.form.editor("router.bias_momentum")->isEnabled());
    config.router.balance_rule = BalanceRule::smebu;
    f.form.setDraft(config);
    QVERIFY(f.form.editor("router.bias_momentum")->isEnabled());
    QVERIFY(f.form.editor("router.bias_update_rate")->isEnabled());
  }

  void whatAnotherSettingSwitchesOffCannotBeEdited() {
    FormWithKeys f;
    RunConfig config = load_preset("nano").config;
    f.form.setDraft(config);
    for (const char* key : {"optimizer.muon_momentum", "precision.hadamard_signs", "precision.stochastic_operands"})
      QVERIFY2(!f.form.editor(key)->isEnabled(), key);
    QVERIFY(f.form.editor("optimizer.muon_momentum")->toolTip().contains("optimizer.name = muon"));
    config.optimizer.name = OptimizerName::muon;
    config.precision.hadamard = true;
    config.precision.rounding = Rounding::stochastic;
    f.form.setDraft(config);
    for (const char* key : {"optimizer.muon_momentum", "precision.hadamard_signs", "precision.stochastic_operands"})
      QVERIFY2(f.form.editor(key)->isEnabled(), key);
  }

  void theCostOfAPresetIsThatOfAllItsRuns() {
    RunSpeeds speeds(false);
    const RunConfig nano = load_preset("nano").config;
    QVERIFY2(speeds.listText({nano}).startsWith("0.32 M parameters, "), qPrintable(speeds.listText({nano})));
    QVERIFY(speeds.listText({nano}).endsWith(" (estimate)"));
    speeds.note({nano}, 0.3);
    QVERIFY2(speeds.listText({nano, nano}).startsWith("2 runs, 0.6"), qPrintable(speeds.listText({nano, nano})));
    QVERIFY(speeds.listText({nano, nano}).endsWith("1,000 steps in about 10 min on this machine"));
    QVERIFY(speeds.costText({nano, nano}).contains("2 runs on the same batches"));
  }

  void theCostOfADraftSaysWhereItComesFrom() {
    FormWithKeys f;
    RunSpeeds speeds(false);
    f.form.setCosts(
        [&](const RunConfig& config) {
          return SetupForm::Cost{speeds.shortText(config), speeds.costText({config})};
        },
        {});
    const auto* cost = f.form.findChild<QLabel*>("setup_cost");
    RunConfig nano = load_preset("nano").config;
    f.form.setDraft(nano);
    QVERIFY2(cost->text().endsWith(" (estimate)"), qPrintable(cost->text()));
    QVERIFY2(cost->toolTip().startsWith("0.32 M parameters"), qPrintable(cost->toolTip()));
    speeds.note({nano}, 0.3);
    f.form.showCost();
    QVERIFY2(cost->text().endsWith("1,000 steps in about 5 min (measured here)"), qPrintable(cost->text()));
    const std::vector<RunConfig> both{nano, load_preset("small").config};
    QVERIFY(!speeds.estimate(both).measured);
    speeds.note(both, 7);
    QVERIFY(speeds.estimate(both).measured && speeds.estimate(both).seconds_per_step == 7);
    QVERIFY(speeds.estimate(nano).measured);
    nano.data.batch *= 2;  // twice the tokens per step
    f.form.setDraft(nano);
    QVERIFY2(cost->text().endsWith("1,000 steps in about 10 min (estimated from nano)"), qPrintable(cost->text()));
    f.type("router.top_k", "99");
    QVERIFY(cost->isHidden());
  }

  void aTwinSaysWhatItAddsBeforeItStarts() {
    const RunConfig nano = load_preset("nano").config;
    RunSpeeds speeds(false);
    speeds.note({nano}, 0.5);
    CompareDialog dialog(nano, &RouterConfig::bias_update_rate);
    dialog.setCost([&](const auto& twins, std::int64_t) { return speeds.twinsText(twins, 60); });
    const auto* cost = dialog.findChild<QLabel*>("twin_cost");
    QVERIFY(cost->isHidden());  // no other value is chosen yet
    auto* line = dialog.findChild<FieldEditor*>()->findChild<QLineEdit*>();
    line->selectAll();
    QTest::keyClicks(line, "0.01");
    QVERIFY(!cost->isHidden());
    QVERIFY2(cost->text().contains("catches up 60 steps in about 30 s"), qPrintable(cost->text()));
    QVERIFY2(cost->text().contains("500 ms longer (measured here)"), qPrintable(cost->text()));
  }

  void speedsAreTakenFromTheNearestRunAndKept() {
    QTemporaryDir home;
    QSettings::setPath(QSettings::IniFormat, QSettings::UserScope, home.path());
    const RunConfig nano = load_preset("nano").config, small = load_preset("small").config;
    {
      RunSpeeds speeds(true);
      QVERIFY(speeds.estimate(nano).isModelled());
      speeds.note({nano}, 0.01);
      speeds.note({small}, 1.0);
      speeds.note({small}, 4.0);  // the geometric mean of both is 2
    }
    const RunSpeeds speeds(true);
    QVERIFY(speeds.estimate(small).measured);
    QCOMPARE(speeds.estimate(small).seconds_per_step, 2.0);
    RunConfig wider = small;
    wider.data.batch *= 3;
    QVERIFY(!speeds.estimate(wider).measured);
    QCOMPARE(speeds.estimate(wider).measured_run, QString("small"));
    QCOMPARE(speeds.estimate(wider).seconds_per_step, 6.0);
  }
};

SCREEN_TEST(SetupFormTest)
#include "qt_setup_form.moc"
