#include "app/setup/field_editor.h"

#include <QAbstractItemView>
#include <QCheckBox>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QFileDialog>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>
#include <QWheelEvent>
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "app/look/dialog_parts.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/explain_card.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

std::vector<ConfigValue> scaled(const ConfigValue& current) {
  std::vector<ConfigValue> values;
  for (const double factor : {0.1, 0.5, 2.0, 10.0}) {
    ConfigValue value = current;
    if (auto* real = std::get_if<double>(&value)) *real *= factor;
    if (auto* whole = std::get_if<std::int64_t>(&value)) {
      const double exact = *whole * factor;
      *whole = std::llround(exact);
      if (*whole != exact) continue;
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace

std::vector<ConfigValue> twinValues(const ConfigField& field, const ConfigValue& current) {
  std::vector<ConfigValue> values;
  if (const auto* on = std::get_if<bool>(&current)) return {!*on};
  if (!std::holds_alternative<std::string>(current)) values = scaled(current);
  for (const std::string& choice : field.choices) values.emplace_back(choice);
  std::erase_if(values,
                [&](const ConfigValue& value) { return value == current || !check_field(field, value).empty(); });
  return values;
}

void fillTwinMenu(QMenu* menu, const ConfigField& field, const TwinOffers& offers) {
  menu->clear();
  menu->addAction(QString("Train beside run A, with another %1:").arg(QString::fromStdString(field.key)))
      ->setEnabled(false);
  const bool possible = offers.possible();
  for (const ConfigValue& value : twinValues(field, offers.present()))
    menu->addAction("  " + valueWords(QString::fromStdString(to_string(value))), menu,
                    [chosen = offers.chosen, value] { chosen(value); })
        ->setEnabled(possible);
  menu->addAction("  another value...", menu, offers.other)->setEnabled(possible);
}

void offerTwins(QWidget* part, const ConfigField& field, TwinOffers offers) {
  part->setContextMenuPolicy(Qt::CustomContextMenu);
  QObject::connect(part, &QWidget::customContextMenuRequested, part,
                   [part, &field, offers = std::move(offers)](QPoint at) {
                     auto* menu = new QMenu(part);
                     menu->setAttribute(Qt::WA_DeleteOnClose);
                     fillTwinMenu(menu, field, offers);
                     menu->popup(part->mapToGlobal(at));
                   });
}

namespace {

constexpr std::array kOperands = {OperandRole::x, OperandRole::w, OperandRole::dy};
constexpr const char* kOperandTexts[] = {"Activations (x)", "Weights (W)", "Gradients (dY)"};

QComboBox* recipeChoice() {
  auto* box = new QComboBox;
  box->addItem("as its class");
  for (const RecipeInfo& info : recipes()) addChoice(box, info.name, inPrint(QString::fromUtf8(info.description)));
  return box;
}

std::vector<OperandRecipe> readable(const QString& text) {
  try {
    return parse_operand_recipes(text.toStdString());
  } catch (const std::invalid_argument&) {
    return {};
  }
}

}  // namespace

OperandsDialog::OperandsDialog(const QString& text, QWidget* parent) : QDialog(parent) {
  setAttribute(Qt::WA_DeleteOnClose);
  setObjectName("operands_dialog");
  setWindowTitle("Recipes by operand");
  QGridLayout* grid = fieldGrid();
  for (std::size_t o = 0; o < kOperands.size(); ++o) grid->addWidget(new QLabel(kOperandTexts[o]), 0, int(o) + 1);
  for (std::size_t c = 0; c < choices_.size(); ++c) {
    const QString name = gemm_class_name(static_cast<GemmClass>(c));
    grid->addWidget(new QLabel(name), int(c) + 1, 0);
    for (std::size_t o = 0; o < kOperands.size(); ++o) {
      choices_[c][o] = recipeChoice();
      choices_[c][o]->setAccessibleName(name + ' ' + operand_name(kOperands[o]));
      grid->addWidget(choices_[c][o], int(c) + 1, int(o) + 1);
    }
  }
  std::vector<OperandRecipe> single;  // entries without a cell in the table
  for (const OperandRecipe& recipe : readable(text)) {
    if (recipe.gemm || recipe.layers != LayerRange{} || recipe.rounding || recipe.rotated)
      single.push_back(recipe);
    else
      choice(recipe.gemm_class, recipe.operand)->setCurrentIndex(static_cast<int>(recipe.recipe) + 1);
  }
  single_ = new QLineEdit(QString::fromStdString(operand_recipes_text(single)));
  single_->setPlaceholderText("experts.dY.wgrad=bf16, 2-3:experts.W=mxfp4");
  single_->setAccessibleName("Recipes of single layers and GEMMs");
  single_->setToolTip(
      "[LAYERS:]CLASS.OPERAND[.GEMM]=RECIPE, several with commas. Layers count from 0; GEMMs are forward, dgrad, "
      "wgrad.");
  problem_ = problemText();
  QDialogButtonBox* buttons = dialogButtons(this, "OK", &ok_);
  connect(single_, &QLineEdit::textChanged, this, &OperandsDialog::checkSingle);
  connect(buttons, &QDialogButtonBox::accepted, this, [this] {
    emit chosen(this->text());
    accept();
  });
  connect(buttons->addButton(QDialogButtonBox::Reset), &QPushButton::clicked, this, [this] {
    for (const auto& row : choices_)
      for (QComboBox* box : row) box->setCurrentIndex(0);
    single_->clear();
  });
  auto* column = dialogColumn(this, "Recipes by operand");
  column->addWidget(quietText(
      "A recipe set here replaces that of the class for this operand, in all its GEMMs and layers. Each operand is "
      "quantized along the dimension that its GEMM contracts."));
  column->addLayout(grid);
  column->addWidget(new QLabel("Overrides by layer and GEMM"));
  column->addWidget(single_);
  column->addWidget(problem_);
  column->addWidget(buttons);
  checkSingle();
}

void OperandsDialog::checkSingle() {
  QString problem;
  try {
    parse_operand_recipes(single_->text().toStdString());
  } catch (const std::invalid_argument& error) {
    problem = error.what();
  }
  showProblem(problem_, problem);
  ok_->setEnabled(problem.isEmpty());
}

QString OperandsDialog::text() const {
  std::vector<OperandRecipe> chosen;
  for (std::size_t c = 0; c < choices_.size(); ++c)
    for (const OperandRole operand : kOperands)
      if (const int index = choice(static_cast<GemmClass>(c), operand)->currentIndex(); index > 0)
        chosen.push_back({static_cast<GemmClass>(c), operand, static_cast<Recipe>(index - 1)});
  std::ranges::copy(readable(single_->text()), std::back_inserter(chosen));
  return QString::fromStdString(operand_recipes_text(chosen));
}

namespace {

constexpr int kRestMs = 400;  // milliseconds from the last step of the arrows until the value is committed

// Returns 1, 2 or 5 times a power of ten, counted by `rank`. Goes through text, so that 5e-6 equals the typed 5e-6.
double oneTwoFive(int rank) {
  static constexpr int kLead[] = {1, 2, 5};
  const int decade = (rank >= 0 ? rank : rank - 2) / 3;
  return QString("%1e%2").arg(kLead[rank - 3 * decade]).arg(decade).toDouble();
}

double nextOneTwoFive(double value, int direction) {
  int rank = 3 * static_cast<int>(std::floor(std::log10(value)));
  while (oneTwoFive(rank) <= value * (1 + 1e-9)) ++rank;  // the first rank above the value
  if (direction > 0) return oneTwoFive(rank);
  while (oneTwoFive(rank) >= value * (1 - 1e-9)) --rank;
  return oneTwoFive(rank);
}

}  // namespace

double nextReal(double value, int direction, double max, double tiny) {
  if (value < 0) return -nextReal(-value, -direction, max, tiny);
  if (value == 0) return direction > 0 ? tiny : 0;
  if (max <= 1 && (value > 0.1 || (value == 0.1 && direction > 0)))
    return std::round((value + 0.05 * direction) * 1e6) / 1e6;
  if (direction < 0 && value <= tiny * (1 + 1e-9)) return 0;
  return nextOneTwoFive(value, direction);
}

std::int64_t nextWhole(std::int64_t value, int direction) {
  const std::int64_t size = std::abs(value);
  std::int64_t step = 1;
  if (size >= 16) {
    step = std::bit_floor(static_cast<std::uint64_t>(size / 8));
    if (size % step != 0) step = std::llround(std::pow(10, std::floor(std::log10(size)) - 1));
  }
  return value + direction * step;
}

NumberEdit::NumberEdit(bool whole, double min, double max, QWidget* parent)
    : QAbstractSpinBox(parent),
      unit_(new QLabel(this)),
      whole_(whole),
      min_(min),
      max_(max),
      commit_timer_(new QTimer(this)) {
  setFocusPolicy(Qt::StrongFocus);
  lineEdit()->setTextMargins(kSpace4, 0, 0, 0);  // same margin as in lists
  unit_->setAttribute(Qt::WA_TransparentForMouseEvents);
  unit_->setForegroundRole(QPalette::PlaceholderText);
  commit_timer_->setSingleShot(true);
  commit_timer_->setInterval(kRestMs);
  connect(commit_timer_, &QTimer::timeout, this, &NumberEdit::commit);
  connect(this, &QAbstractSpinBox::editingFinished, this, &NumberEdit::commit);
  connect(lineEdit(), &QLineEdit::textEdited, this, [this] {
    dirty_ = true;
    emit edited();
  });
  connect(lineEdit(), &QLineEdit::textChanged, this, &NumberEdit::placeUnit);
}

void NumberEdit::setUnit(const QString& unit) {
  unit_->setText(unit);
  placeUnit();
}

// Shows the unit at the right, where the arrows appear while the pointer is over the field.
void NumberEdit::placeUnit() {
  const QFont small = typeFont(Type::secondary);
  if (unit_->font() != small) unit_->setFont(small);
  unit_->resize(unit_->sizeHint());
  unit_->move(width() - kSpace8 - unit_->width(), (height() - unit_->height()) / 2);
  const int needed = 2 * kSpace8 + fontMetrics().horizontalAdvance(text()) + kSpace8 + unit_->width();
  unit_->setVisible(!unit_->text().isEmpty() && !underMouse() && needed <= width());
}

std::optional<double> NumberEdit::number() const {
  bool ok = false;
  const double value = text().trimmed().toDouble(&ok);
  return ok && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> NumberEdit::whole() const {
  bool ok = false;
  const std::int64_t value = text().trimmed().toLongLong(&ok);
  return ok ? std::optional(value) : std::nullopt;
}

void NumberEdit::commit() {
  commit_timer_->stop();
  if (!dirty_) return;
  dirty_ = false;
  emit committed();
}

void NumberEdit::stepBy(int steps) {
  const int direction = steps > 0 ? 1 : -1;
  for (int i = 0; i < std::abs(steps); ++i) {
    if (whole_) {
      if (auto value = whole()) setWhole(std::llround(std::clamp<double>(nextWhole(*value, direction), min_, max_)));
    } else if (auto value = number()) {
      setNumber(std::clamp(nextReal(*value, direction, max_), min_, max_));
    }
  }
  dirty_ = true;
  commit_timer_->start();
  emit edited();
}

QAbstractSpinBox::StepEnabled NumberEdit::stepEnabled() const {
  const auto value = number();
  if (!value) return StepNone;
  StepEnabled enabled = StepNone;
  if (*value < max_) enabled |= StepUpEnabled;
  if (*value > min_) enabled |= StepDownEnabled;
  return enabled;
}

QValidator::State NumberEdit::validate(QString& input, int&) const {
  const auto allowed = [this](QChar c) { return c.isDigit() || QString(whole_ ? "+-" : "+-.eE").contains(c); };
  return std::all_of(input.cbegin(), input.cend(), allowed) ? QValidator::Acceptable : QValidator::Invalid;
}

// Ignores the wheel unless the field has the focus: scrolling the form must not change numbers.
void NumberEdit::wheelEvent(QWheelEvent* event) {
  if (hasFocus())
    QAbstractSpinBox::wheelEvent(event);
  else
    event->ignore();
}

// True if the window handles a key: Space, letters that no number has, and undo once the value was committed.
bool NumberEdit::isForTheWindow(const QKeyEvent& key) const {
  if (key.matches(QKeySequence::Undo) || key.matches(QKeySequence::Redo)) return !dirty_;
  if (key.modifiers() != Qt::NoModifier || key.text().isEmpty() || !key.text()[0].isPrint()) return false;
  QString text = key.text();
  int at = 0;
  return validate(text, at) == QValidator::Invalid;
}

bool NumberEdit::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride && isForTheWindow(*static_cast<QKeyEvent*>(event))) {
    event->ignore();
    return false;
  }
  const bool done = QAbstractSpinBox::event(event);
  const QEvent::Type type = event->type();
  if (type == QEvent::Resize || type == QEvent::Enter || type == QEvent::Leave) placeUnit();
  return done;
}

QSize NumberEdit::sizeHint() const {
  const int digits = fontMetrics().horizontalAdvance("0.00000000");
  return {digits + 26, withType(kFieldHeight, fontMetrics())};
}

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
  const bool is_muon_field = setting.is_in<OptimizerConfig>() && field.name().starts_with("muon_");
  if (is_muon_field && config.optimizer.name != OptimizerName::muon) return only_with(&OptimizerConfig::name, "muon");
  const bool is_rotation_field =
      setting == &PrecisionConfig::hadamard_gemms || setting == &PrecisionConfig::hadamard_signs;
  if (is_rotation_field && !config.precision.hadamard) return only_with(&PrecisionConfig::hadamard, "true");
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
