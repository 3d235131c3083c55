#include "app/setup/field_editor.h"

#include <QAbstractItemView>
#include <QCheckBox>
#include <QComboBox>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLineEdit>
#include <QMenu>
#include <QToolButton>

#include "app/setup/number_edit.h"
#include "app/setup/operands_dialog.h"
#include "widgets/look/layouts.h"
#include "widgets/panel/explain_card.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

namespace {

// Letters of a choice for which the box has room. "mxfp8_e5m2_grad" would take half of the form.
constexpr int kShownLetters = 12;

class QuietComboBox : public QComboBox {  // ignores the wheel without focus: scrolling must not change choices
 public:
  using QComboBox::QComboBox;

 protected:
  void wheelEvent(QWheelEvent* event) override { hasFocus() ? QComboBox::wheelEvent(event) : event->ignore(); }
};

}  // namespace

QString fieldToolTip(const ConfigField& field) {
  const QString standard = QString::fromStdString(to_string(field.get(RunConfig{})));
  QString tip =
      QString("<p><b>%1</b><br>%2</p><p>Allowed: %3<br>Default: %4")
          .arg(QString::fromStdString(field.key).toHtmlEscaped(), QString::fromStdString(field.help).toHtmlEscaped(),
               QString::fromStdString(allowed_text(field)).toHtmlEscaped(),
               standard.isEmpty() ? QString("none") : standard.toHtmlEscaped());
  if (field.live) tip += "<br>Live: may be changed while the model trains";
  return cardInPrint(tip + "</p>");
}

namespace {

// Returns as rich text why a run with these settings does not use this setting; empty: it does.
QString whyUnused(const ConfigField& field, const RunConfig& config) {
  const Setting setting = field;
  const auto only_with = [](Setting other, const char* value) {
    return QString("<p>Not used: only with %1 = %2.</p>").arg(QString::fromStdString(other.key()), value);
  };
  if (setting == &ModelConfig::vocab && config.data.tokenizer.empty() && config.model.vocab == 256)
    return "<p>Fixed: without a tokenizer tokens are bytes.</p>";
  const bool of_muon = setting.is_in<OptimizerConfig>() && field.name().starts_with("muon_");
  if (of_muon && config.optimizer.name != OptimizerName::muon) return only_with(&OptimizerConfig::name, "muon");
  const bool of_rotation = setting == &PrecisionConfig::hadamard_gemms || setting == &PrecisionConfig::hadamard_signs;
  if (of_rotation && !config.precision.hadamard) return only_with(&PrecisionConfig::hadamard, "true");
  if (setting == &PrecisionConfig::stochastic_operands && config.precision.rounding != Rounding::stochastic)
    return only_with(&PrecisionConfig::rounding, "stochastic");
  if (setting == &OptimizerConfig::update_stochastic && config.optimizer.master_format != StoredFormat::bf16)
    return only_with(&OptimizerConfig::master_format, "bf16");
  const BalanceRule rule = config.router.balance_rule;
  const auto unless = [&](bool used, const char* rules) {
    const Setting rule_setting(&RouterConfig::balance_rule);
    return used ? QString()
                : QString("<p>Not used by the bias rule %1: only with %2 = %3.</p>")
                      .arg(QString::fromStdString(to_string(rule_setting.field().get(config))),
                           QString::fromStdString(rule_setting.field().key), rules);
  };
  if (setting == &RouterConfig::bias_update_rate || setting == &RouterConfig::bias_centring)
    return unless(!by_quantiles(rule), "sign, proportional or smebu");
  if (setting == &RouterConfig::count_format) return unless(rule == BalanceRule::sign, "sign");
  if (setting == &RouterConfig::bias_soft_clamp || setting == &RouterConfig::bias_momentum)
    return unless(rule == BalanceRule::smebu, "smebu");
  if (setting == &RouterConfig::quantile_ema)
    return unless(rule == BalanceRule::quantile_microbatch, "quantile_microbatch");
  if (setting == &RouterConfig::sequence_strength)
    return unless(rule == BalanceRule::quantile_sequence, "quantile_sequence");
  return {};
}

}  // namespace

FieldEditor::FieldEditor(const ConfigField& field, QWidget* parent)
    : QWidget(parent), field_(field), type_(field.get(RunConfig{})) {
  auto* row = plainRow(this, 2);
  QWidget* editor = makeEditor();
  row->addWidget(editor);
  const auto add_button = [row](const QString& tip) {
    auto* button = new QToolButton;
    button->setText("...");
    button->setToolTip(tip);
    row->addWidget(button);
    return button;
  };
  if (Setting(field) == &DataConfig::path) {
    QToolButton* button = add_button("Choose a text file or a folder of text files");
    auto* menu = new QMenu(button);
    menu->addAction("Text &file...", this, [this] { browse(false); });
    menu->addAction("F&older of text files...", this, [this] { browse(true); });
    menu->addAction("&Built-in text, as chosen below", this, [this] { enterText({}); });
    button->setMenu(menu);
    button->setPopupMode(QToolButton::InstantPopup);
  }
  if (Setting(field) == &DataConfig::tokenizer)
    connect(add_button("Choose a tokenizer.json"), &QToolButton::clicked, this, &FieldEditor::chooseTokenizer);
  if (Setting(field) == &PrecisionConfig::operands)
    connect(add_button("Choose a recipe for each operand of each class of GEMMs"), &QToolButton::clicked, this,
            &FieldEditor::chooseOperands);
  setFocusProxy(editor);
  setToolTip(fieldToolTip(field));
  editor->setAccessibleName(QString::fromStdString(field.label));
  editor->setAccessibleDescription(printedText(field.help));
  editor->setObjectName(QString::fromStdString(field.key));
  editor->installEventFilter(this);
}

QWidget* FieldEditor::makeEditor() {
  if (std::holds_alternative<bool>(type_)) return makeCheckBox();
  if (!field_.choices.empty()) return makeChoice();
  if (std::holds_alternative<std::string>(type_)) return makeText();
  return makeNumber(std::holds_alternative<std::int64_t>(type_));
}

QWidget* FieldEditor::makeCheckBox() {
  check_ = new QCheckBox;
  connect(check_, &QCheckBox::clicked, this, [this] {
    emit edited();
    emit committed();
  });
  return check_;
}

void addChoice(QComboBox* box, const QString& key, const QString& about) {
  box->addItem(valueWords(key).replace(QLatin1Char('_'), QLatin1Char(' ')), key);
  box->setItemData(box->count() - 1, about.isEmpty() ? key : key + QStringLiteral(": ") + about, Qt::ToolTipRole);
}

QWidget* FieldEditor::makeChoice() {
  choice_ = new QuietComboBox;
  choice_->setFocusPolicy(Qt::StrongFocus);
  choice_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  std::size_t longest = 0;
  for (const std::string& choice : field_.choices) {
    addChoice(choice_, QString::fromStdString(choice));
    longest = std::max(longest, choice.size());
  }
  choice_->setMinimumContentsLength(std::min(kShownLetters, to_int(longest)));
  choice_->view()->setMinimumWidth(choice_->view()->sizeHintForColumn(0) + 24);  // the open list shows whole names
  connect(choice_, &QComboBox::activated, this, [this] {
    emit edited();
    emit committed();
  });
  return choice_;
}

QWidget* FieldEditor::makeNumber(bool whole) {
  number_ = new NumberEdit(whole, field_.min, field_.max);
  number_->setUnit(QString::fromStdString(field_.unit));
  connect(number_, &NumberEdit::edited, this, &FieldEditor::edited);
  connect(number_, &NumberEdit::committed, this, &FieldEditor::committed);
  return number_;
}

QWidget* FieldEditor::makeText() {
  text_ = new QLineEdit;
  connect(text_, &QLineEdit::textEdited, this, &FieldEditor::edited);
  connect(text_, &QLineEdit::editingFinished, this, &FieldEditor::committed);
  return text_;
}

void FieldEditor::browse(bool folder) {
  const QString path = folder ? QFileDialog::getExistingDirectory(window(), "Folder of text files", text_->text())
                              : QFileDialog::getOpenFileName(window(), "Text file", text_->text());
  if (!path.isEmpty()) enterText(path);
}

void FieldEditor::chooseTokenizer() {
  const QString path = QFileDialog::getOpenFileName(window(), "Tokenizer", text_->text(), "tokenizer.json (*.json)");
  if (!path.isEmpty()) enterText(path);
}

void FieldEditor::chooseOperands() {
  auto* dialog = new OperandsDialog(text_->text(), window());
  connect(dialog, &OperandsDialog::chosen, this, &FieldEditor::enterText);
  dialog->open();
}

void FieldEditor::enterText(const QString& text) {
  text_->setText(text);
  emit edited();
  emit committed();
}

void FieldEditor::setValue(const ConfigValue& value) {
  if (check_) check_->setChecked(std::get<bool>(value));
  if (choice_) choice_->setCurrentIndex(choice_->findData(QString::fromStdString(std::get<std::string>(value))));
  if (text_) text_->setText(QString::fromStdString(std::get<std::string>(value)));
  if (number_ && std::holds_alternative<std::int64_t>(value)) number_->setWhole(std::get<std::int64_t>(value));
  if (number_ && std::holds_alternative<double>(value)) number_->setNumber(std::get<double>(value));
}

void FieldEditor::setUnit(const QString& unit) {
  if (number_) number_->setUnit(unit);
}

void FieldEditor::offer(const RunConfig* config, bool enabled) {
  const QString unused = config ? whyUnused(field_, *config) : QString();
  setEnabled(enabled && unused.isEmpty());
  setToolTip(unused + fieldToolTip(field_));
}

void FieldEditor::clear() {
  if (check_) check_->setChecked(false);
  if (choice_) choice_->setCurrentIndex(-1);
  if (text_) text_->clear();
  if (number_) number_->clear();
}

std::optional<ConfigValue> FieldEditor::value() const {
  if (check_) return check_->isChecked();
  if (choice_) return choice_->currentData().toString().toStdString();
  if (text_) return text_->text().toStdString();
  if (std::holds_alternative<std::int64_t>(type_)) {
    const auto whole = number_->whole();
    return whole ? std::optional<ConfigValue>(*whole) : std::nullopt;
  }
  const auto real = number_->number();
  return real ? std::optional<ConfigValue>(*real) : std::nullopt;
}

QString FieldEditor::problem() const {
  const auto entered = value();
  return QString::fromStdString(check_field(field_, entered ? *entered : ConfigValue(number_->text().toStdString())));
}

// Lets a focused check box or list receive Space and letters, which the window's shortcuts would take.
bool FieldEditor::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::FocusIn || event->type() == QEvent::Enter) emit focused();
  if (event->type() == QEvent::ShortcutOverride && (check_ || choice_)) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->modifiers() == Qt::NoModifier && !key->text().isEmpty()) event->accept();
  }
  return QWidget::eventFilter(watched, event);
}

}  // namespace moescope
