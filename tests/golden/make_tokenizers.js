#!/usr/bin/env node
// Makes tests/golden/tokenizers/tokenizers.tar.xz: small tokenizers of every kind that MoEScope reads, and the ids that the
// `tokenizers` package gives for difficult texts.
//   npm install tokenizers@0.23.2 && node make_tokenizers.js FOLDER
// FOLDER/NAME.json is a tokenizer, FOLDER/expected.json {"texts": [...], "tokenizers": {NAME: {"plain": [ids, ...],
// "special": [ids, ...], "decoded": [text, ...], "decoded_special": [text, ...]}}}, in the order of the texts. "plain" has
// no special tokens of the post-processor; "decoded" is the decoded text of "special" without special tokens.
const fs = require('fs');
const path = require('path');
const {Tokenizer} = require('tokenizers');

const texts = [
  '', ' ', '  ', '\n', '\t', '\r\n', ' \n \n', 'a', ' a', 'a ', '  two  spaces  ', 'Hello, world!', 'Hello world\n',
  "I'll say we've won, they're here, I'm sure, he'd know, it's 'tis don't",
  "I'LL SAY WE'VE WON, THEY'RE HERE, I'M SURE, HE'D KNOW, IT'S 'TIS DON'T Don'T", "'s's 'S'ſ 'ſ 'K 'll'LL'lL",
  'The experts of a layer are chosen by its router: each token goes to the two with the largest scores.',
  'for i in range(10):\n    if i % 2 == 0:\n        print(f"{i:>4}")\n\n\n    return None\n',
  '#include <vector>\nint main(int argc, char** argv) {\n\treturn argc > 1 ? 0x1F : -1;\t// done\r\n}\r\n',
  '<a href="https://example.org/path?q=1&r=%20x#top">Link</a>', 'https://example.org/a_b-c.d/e~f?g=h&i=j;k#l',
  'user.name+tag@example.co.uk C:\\Users\\x\\y.txt /usr/lib/x86_64-linux-gnu/libc.so.6',
  '1234567890', '1 22 333 4444 55555 666666', '3.14159 -2.5e-10 1,000,000 0x7fff 50% $12.50 №5', '１２３４５ ١٢٣٤٥ ५६७ Ⅷ ½ ² ⑳',
  'Zoë naïve café résumé Ångström coöperate', 'Zoe\u0308 nai\u0308ve cafe\u0301 re\u0301sume\u0301 A\u030angstro\u0308m',
  'ﬁne ﬂow ①② ｆｕｌｌｗｉｄｔｈ ㌀ ﷺ', 'Größe, Straße, ÄÖÜ äöü ẞ', 'Où est la bibliothèque ? Ça coûte 5 € à Noël.',
  '¿Dónde está el niño? ¡Aquí!', 'Привет, мир! Ёлка и щука.', 'Γειά σου Κόσμε, ΟΔΥΣΣΕΥΣ ὀδυσσεύς', 'שלום עולם, מה שלומך?',
  'مرحبا بالعالم، كيف حالك؟', 'नमस्ते दुनिया, क्षत्रिय', 'สวัสดีชาวโลก วันนี้อากาศดี', 'こんにちは世界。カタカナとひらがな、漢字が混ざる１２３。',
  '你好，世界！今天天气很好。ＡＢＣ', '안녕하세요 세계, 한국어 문장입니다.', '각 나', 'Xin chào thế giới, tiếng Việt', 'ខ្មែរ မြန်မာ ქართული հայերեն',
  '😀😃 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ ☃ ✈️', 'e\u0301\u0323\u0300\u0328 a\u0328\u0301 \u0301alone', 'q\u0307\u0323 \u1e0b\u0323 \u212b \u2126', '\u037aalpha', '\u02db x', ' \u0301x', '½', 'ᄀ\u1161\u11a8 각',
  'zero\u200bwidth\u200cnon\u200djoiner\u2060\ufeffbom', 'nbsp\u00a0thin\u2009ideo\u3000ogham\u1680line\u2028para\u2029next\u0085end',
  'a\u0000b\u0001c\u001fd\u007fe\u009ff', 'soft\u00adhyphen\u2010dash–en—em…dots‘q’“Q”', 'a' + ' '.repeat(40) + 'b' + '\n'.repeat(12) + 'c' + '\t'.repeat(5) + 'd',
  ' \t\n\r\u000b\u000c mixed \t blanks \n\n', 'line one\rline two\r\nline three\n\rline four\n', 'trailing blanks   \n   \n', '\n\n  leading',
  'x'.repeat(300), 'ab'.repeat(120), 'Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen'.repeat(3), '!?'.repeat(40) + '...' + '='.repeat(33),
  'snake_case camelCase PascalCase SCREAMING_CASE kebab-case', 'HTTPServer XMLHttpRequest iOS macOS USAToday McDonald',
  '\\p{L}+ ^$.*+?()[]{}|\\', '"quoted" \'single\' `tick` (a) [b] {c} <d>', 'emoji:)mixed😀text', '∀x∈ℝ: ⌈x⌉ ≥ x ∧ α→β ⇒ ∑ᵢ₌₁ⁿ 𝒳𝒴 𝟘𝟙',
  '𐍈 𓀀 𠮷野家 🀄', 'İstanbul ISPARTA ıİ ǅ ǆ', 'x\u0338 \u0338', 'O’Neill’s ‘70s rock’n’roll', '\u{10ffff} \ue000 \ufffd \ufffe',
  '<s>begin</s> and <unk> inside <pad>', 'text<|end|>more<|end|><|end|> ', '   <|end|>   padded   <|end|>   ', '<|endoftext|><|end<|end|>',
  'lstrip   [L]   here [L][L]', 'rstrip   [R]   here [R]  [R] ', 'both   [B]   here\n[B]\n[B]x', 'word wordy swordword word-word word_word word',
  'Norm norm NORM nOrM [Norm]', 'abc abcd abcde abcdef xabcdex', 'the [LONG token] of [LONG', '▁already ▁▁ marked▁', '▁', ' ▁ a▁b', '<0x41><0x0A> <0xZZ>',
  'Ġ Ċ ĉ Ā', 'ã\u0303 õ ñ n\u0303 Ñ', 'A\u0301\u0301', 'The quick brown fox jumps over the lazy dog. THE QUICK BROWN FOX.', 'ſſ ẛ̣ ß SS',
  'Step 17: loss=2.3456 (lr 3e-4) | tok/s 12,345', '{"key": [1, 2.0, null, true], "näme": "välue\\n"}', '- [ ] item\n  - [x] sub\n1. one\n2. two\n',
];

const llama3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const qwen2 = llama3.replace('{1,3}', '');
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]', lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]', endings = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
const o200k = `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${endings}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${endings}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
const cl100k = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s";
const deepseek = '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

const split = (pattern, behavior = 'Isolated', invert = false) => ({type: 'Split', pattern, behavior, invert});
const regex = (expression) => ({Regex: expression});
const byteLevel = (space, useRegex) => ({type: 'ByteLevel', add_prefix_space: space, trim_offsets: true, use_regex: useRegex});
const sequence = (key, steps) => ({type: 'Sequence', [key]: steps});
const metaspace = (scheme, cuts = true) => ({type: 'Metaspace', replacement: '▁', prepend_scheme: scheme, split: cuts});
const replace = (what, content) => ({type: 'Replace', pattern: typeof what === 'string' ? {String: what} : what, content});
const added = (content, flags = {}) => ({content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...flags});
const template = (before, behind) => ({before, behind});  // becomes a TemplateProcessing when the ids are known
const sentencePieceDecoder = sequence('decoders', [replace('▁', ' '), {type: 'ByteFallback'}, {type: 'Fuse'}, {type: 'Strip', content: ' ', start: 1, stop: 0}]);

// Alphabet of byte-level tokenizers.
const byteCharacters = (() => {
  const characters = [];
  let other = 0x100;
  for (let b = 0; b < 256; ++b)
    characters.push(String.fromCodePoint((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae ? b : other++));
  return characters;
})();
const byteTokens = Array.from({length: 256}, (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);

const idsOf = (list) => Object.fromEntries(list.map((token, id) => [token, id]));

// Returns the pieces into which a tokenizer splits the texts, with their counts. A character model shows them.
async function pieceCounts(parts) {
  const shape = (characters) => JSON.stringify({version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: parts.normalizer ?? null,
    pre_tokenizer: parts.pre_tokenizer ?? null, post_processor: null, decoder: null,
    model: {type: 'BPE', dropout: null, unk_token: '\u{f0000}', continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false,
      byte_fallback: false, vocab: idsOf(characters), merges: []}});
  const seen = new Set(['\u{f0000}', ...byteCharacters, '▁']);
  for (const text of texts) for (const form of ['NFC', 'NFD', 'NFKC', 'NFKD']) for (const c of (text + text.toLowerCase()).normalize(form)) seen.add(c);
  const tokenizer = Tokenizer.fromString(shape([...seen]));
  const counts = new Map();
  for (const text of texts) {
    const encoding = await tokenizer.encode(text, null, {addSpecialTokens: false});
    const words = encoding.getWordIds(), tokens = encoding.getTokens();
    let piece = [];
    for (let i = 0; i < tokens.length; ++i) {
      piece.push(tokens[i]);
      if (words[i + 1] === words[i] && i + 1 < tokens.length) continue;
      counts.set(piece.join('\u0001'), (counts.get(piece.join('\u0001')) ?? 0) + 1);
      piece = [];
    }
  }
  return [...counts].map(([key, count]) => ({characters: key.split('\u0001'), count}));
}

// Byte-pair encoding: merges the most frequent pair first; among equal counts the smaller text.
function trainMerges(pieces, vocabulary, count, {prefix = '', suffix = ''} = {}) {
  const words = pieces.map(({characters, count}) => ({count, symbols: characters.map((c, i) =>
    (i ? prefix : '') + c + (i + 1 === characters.length ? suffix : ''))}));
  const known = new Set(vocabulary), merges = [];
  for (const word of words) for (const symbol of word.symbols) if (known.size < 900 && !known.has(symbol) && symbol.length < 12) { known.add(symbol); vocabulary.push(symbol); }
  while (merges.length < count) {
    const pairs = new Map();
    for (const {symbols, count} of words)
      for (let i = 0; i + 1 < symbols.length; ++i)
        if (known.has(symbols[i]) && known.has(symbols[i + 1])) {
          const key = symbols[i] + '\u0001' + symbols[i + 1];
          pairs.set(key, (pairs.get(key) ?? 0) + count);
        }
    let best = null, most = 1;
    for (const [key, n] of pairs) if (n > most || (n === most && best && key < best)) [best, most] = [key, n];
    if (!best) break;
    const [left, right] = best.split('\u0001'), joined = left + right.slice(prefix.length);
    merges.push([left, right]);
    if (!known.has(joined)) { known.add(joined); vocabulary.push(joined); }
    for (const word of words)
      for (let i = 0; i + 1 < word.symbols.length; ++i)
        if (word.symbols[i] === left && word.symbols[i + 1] === right) word.symbols.splice(i, 2, joined);
  }
  return merges;
}

const bpe = (vocab, merges, rest = {}) => ({type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false,
  byte_fallback: false, ignore_merges: false, ...rest, vocab: idsOf(vocab), merges: rest.oldMerges ? merges.map((pair) => pair.join(' ')) : merges});

async function byteLevelModel(parts, rest) {
  const vocabulary = [...byteCharacters];
  const merges = trainMerges(await pieceCounts(parts), vocabulary, 250);
  return bpe(vocabulary, merges, rest);
}

async function sentencePieceModel(parts, first, rest) {
  const vocabulary = [...first, ...byteTokens];
  const pieces = (await pieceCounts({...parts, pre_tokenizer: metaspace('never')})).filter(({characters}) => characters.length < 40);
  const ascii = pieces.map(({characters, count}) => ({count, characters: characters.filter((c) => c < '\u0100' || c === '▁' || (c >= '一' && c < '世'))})).filter((p) => p.characters.length);
  const merges = trainMerges(ascii, vocabulary, 250);
  return bpe(vocabulary, merges, {unk_token: '<unk>', fuse_unk: true, byte_fallback: true, ...rest});
}

// Scores are logarithms of the counts of the parts of pieces.
async function unigramModel(parts, first, {bytes = false} = {}) {
  const counts = new Map();
  for (const {characters, count} of await pieceCounts(parts))
    for (let i = 0; i < Math.min(characters.length, 200); ++i)
      for (let n = 1; n <= 7 && i + n <= characters.length; ++n) {
        const part = characters.slice(i, i + n).join('');
        counts.set(part, (counts.get(part) ?? 0) + count);
      }
  const best = [...counts].filter(([part]) => part < '\u0500' || part[0] === '▁').sort((a, b) => b[1] * b[0].length - a[1] * a[0].length || (a[0] < b[0] ? -1 : 1)).slice(0, 420);
  const total = best.reduce((sum, [, count]) => sum + count, 0);
  const vocab = [...first.map((token) => [token, 0]), ...(bytes ? byteTokens.map((token) => [token, -30]) : []),
    ...best.filter(([part]) => !first.includes(part)).map(([part, count]) => [part, Math.log(count / total)])];
  return {type: 'Unigram', unk_id: first.indexOf('<unk>'), vocab, byte_fallback: bytes};
}

// Character map of a SentencePiece model: a double array of 32-bit units in the layout of Darts-clone.
function charsmap(map) {
  const root = {children: new Map()}, blob = [];
  for (const [from, to] of map) {
    let node = root;
    for (const byte of Buffer.from(from)) {
      if (!node.children.has(byte)) node.children.set(byte, {children: new Map()});
      node = node.children.get(byte);
    }
    node.value = blob.length;
    blob.push(...Buffer.from(to), 0);
  }
  const units = new Map([[0, 0]]);
  const place = (node, at, label) => {
    const labels = [...node.children.keys(), ...(node.value === undefined ? [] : [0])];
    let base = 1;
    while (labels.some((l) => units.has(base ^ l)) || (at ^ base) >= 1 << 21) ++base;
    for (const l of labels) units.set(base ^ l, 0);
    units.set(at, (label | (node.value === undefined ? 0 : 1 << 8) | (at ^ base) << 10) >>> 0);
    if (node.value !== undefined) units.set(base, (node.value | 1 << 31) >>> 0);
    for (const [l, child] of node.children) place(child, base ^ l, l);
  };
  place(root, 0, 0);
  const array = new Uint32Array(Math.max(...units.keys()) + 256);
  for (const [at, unit] of units) array[at] = unit;
  return Buffer.concat([Buffer.from(Uint32Array.of(array.byteLength).buffer), Buffer.from(array.buffer), Buffer.from(blob)]).toString('base64');
}

// NFKC forms of characters and of letters with a mark; controls are removed, other blanks become spaces.
function charsmapOfTexts() {
  const map = new Map([['\n', ' '], ['\t', ' '], ['\r', ' '], ['\u200b', ''], ['\u00ad', ''], ['\u0001', ''], ['\u007f', '']]);
  for (const text of texts)
    for (const c of text) {
      if (c.normalize('NFKC') !== c) map.set(c, c.normalize('NFKC'));
      const apart = c.normalize('NFD');
      if ([...apart].length === 2) map.set(apart, c);
    }
  return charsmap(map);
}

async function tokenizers() {
  const all = {};
  const byteKind = async (name, parts, rest = {}) => { all[name] = {decoder: byteLevel(true, true), ...parts, model: await byteLevelModel(parts, rest)}; };
  const end = added('<|end|>'), endOfText = added('<|endoftext|>');
  await byteKind('gpt2', {pre_tokenizer: byteLevel(false, true), post_processor: byteLevel(true, false), added: [endOfText, end]}, {oldMerges: true});
  await byteKind('roberta', {pre_tokenizer: byteLevel(true, true), post_processor: {roberta: ['<s>', '</s>']}, added: [added('<s>'), added('</s>'), added('<pad>', {lstrip: true})]});
  await byteKind('llama3', {pre_tokenizer: sequence('pretokenizers', [split(regex(llama3)), byteLevel(false, false)]), added: [endOfText, end],
    post_processor: sequence('processors', [byteLevel(true, false), template(['<|endoftext|>'], [])])}, {ignore_merges: true});
  await byteKind('qwen2', {normalizer: {type: 'NFC'}, pre_tokenizer: sequence('pretokenizers', [split(regex(qwen2)), byteLevel(false, false)]), post_processor: byteLevel(false, false), added: [endOfText, end]});
  await byteKind('deepseek_v3', {normalizer: sequence('normalizers', []), added: [endOfText, end, added('<｜tool▁end｜>', {special: false})], post_processor: sequence('processors', [byteLevel(true, false), template(['<|endoftext|>'], [])]),
    pre_tokenizer: sequence('pretokenizers', [split(regex('\\p{N}{1,3}')), split(regex('[一-龥぀-ゟ゠-ヿ]+')), split(regex(deepseek)), byteLevel(false, false)])});
  await byteKind('o200k', {pre_tokenizer: sequence('pretokenizers', [split(regex(o200k)), byteLevel(false, false)]), added: [endOfText, end], post_processor: byteLevel(true, false)});
  await byteKind('cl100k_removed', {pre_tokenizer: sequence('pretokenizers', [split(regex(cl100k), 'Removed', true), byteLevel(false, false)]), added: [endOfText, end]});
  await byteKind('olmoe', {normalizer: {type: 'NFC'}, pre_tokenizer: byteLevel(false, true), added: [endOfText, ...[2, 3, 4, 8, 16].map((n) => added(' '.repeat(n), {normalized: true, special: false}))],
    post_processor: template([], ['<|endoftext|>'])});
  await byteKind('byte_normalizer', {normalizer: {type: 'ByteLevel'}, added: [added('norm', {normalized: true, special: false}), end], pre_tokenizer: split(regex('Ġ'), 'MergedWithNext')});
  await byteKind('digits', {normalizer: {type: 'NFKC'}, pre_tokenizer: sequence('pretokenizers', [{type: 'Digits', individual_digits: true}, {type: 'Punctuation', behavior: 'Contiguous'}, byteLevel(false, true)]), added: [end]});
  await byteKind('flags', {normalizer: {type: 'Lowercase'}, pre_tokenizer: byteLevel(false, true), post_processor: template(['[L]'], ['[R]', '[B]']), added: [
    added('[L]', {lstrip: true}), added('[R]', {rstrip: true}), added('[B]', {lstrip: true, rstrip: true, special: false}), added('word', {single_word: true, special: false}),
    added('Norm', {normalized: true, special: false}), added('abc', {special: false}), added('abcde', {special: false}), added('bcd', {normalized: true, special: false}),
    added('cd', {normalized: true, special: true}), added('[LONG token]', {special: false}), added('<|end', {special: false}), end, added('the', {single_word: true, normalized: true, lstrip: true, special: false})]});

  const first = ['<unk>', '<s>', '</s>'], firstAdded = first.map((token) => added(token));
  const llama2 = {normalizer: sequence('normalizers', [{type: 'Prepend', prepend: '▁'}, replace(' ', '▁')]), decoder: sentencePieceDecoder, added: firstAdded, post_processor: template(['<s>'], [])};
  all.llama2 = {...llama2, model: await sentencePieceModel(llama2, first, {oldMerges: true})};
  const mixtral = {pre_tokenizer: metaspace('first', false), decoder: sentencePieceDecoder, added: [...firstAdded, added('[B]', {normalized: true, special: false})], post_processor: template(['<s>'], ['</s>'])};
  all.mixtral = {...mixtral, model: await sentencePieceModel({}, first)};
  const gemma = {normalizer: replace(' ', '▁'), pre_tokenizer: split({String: '▁'}, 'MergedWithPrevious'), decoder: sequence('decoders', [replace('▁', ' '), {type: 'ByteFallback'}, {type: 'Fuse'}]), added: [...firstAdded, added('\n\n', {special: false}), added('▁▁', {special: false})]};
  all.gemma = {...gemma, model: await sentencePieceModel(gemma, first)};

  const t5 = {normalizer: sequence('normalizers', [{type: 'NFKC'}, {type: 'Strip', strip_left: false, strip_right: true}, replace(regex(' {2,}'), '▁')]), pre_tokenizer: metaspace('always'), decoder: metaspace('always'), added: firstAdded, post_processor: template([], ['</s>'])};
  all.unigram = {...t5, model: await unigramModel(t5, first)};
  const xlm = {normalizer: {type: 'NFKD'}, pre_tokenizer: sequence('pretokenizers', [{type: 'WhitespaceSplit'}, metaspace('first')]), decoder: metaspace('first'), added: firstAdded, post_processor: {bert: ['<s>', '</s>']}};
  all.unigram_first = {...xlm, model: await unigramModel(xlm, first)};
  const fallback = {pre_tokenizer: metaspace('never', false), decoder: sequence('decoders', [{type: 'ByteFallback'}, metaspace('never')]), added: firstAdded};
  all.unigram_bytes = {...fallback, model: await unigramModel({pre_tokenizer: metaspace('never')}, first, {bytes: true})};
  const stripped = {normalizer: sequence('normalizers', [{type: 'Strip', strip_left: true, strip_right: true}, {type: 'NFD'}, {type: 'StripAccents'}, {type: 'Lowercase'}]), pre_tokenizer: metaspace('first'), decoder: metaspace('first'), added: firstAdded};
  all.unigram_stripped = {...stripped, model: await unigramModel(stripped, first)};

  const precompiled = {normalizer: sequence('normalizers', [{type: 'Precompiled', precompiled_charsmap: charsmapOfTexts()}, replace(regex(' {2,}'), ' ')]), pre_tokenizer: metaspace('always'), decoder: metaspace('always'), added: firstAdded};
  all.charsmap = {...precompiled, model: await unigramModel(precompiled, first)};

  const words = async (name, parts, options, rest) => {
    const vocabulary = ['<unk>'];
    const merges = trainMerges(await pieceCounts(parts), vocabulary, 200, options);
    all[name] = {...parts, model: bpe(vocabulary, merges, {unk_token: '<unk>', ...rest})};
  };
  await words('word_ends', {normalizer: sequence('normalizers', [{type: 'NFD'}, {type: 'StripAccents'}, {type: 'Lowercase'}]), pre_tokenizer: {type: 'Whitespace'}, decoder: {type: 'BPEDecoder', suffix: '</w>'}, added: [end]},
    {suffix: '</w>'}, {end_of_word_suffix: '</w>'});
  await words('subwords', {pre_tokenizer: sequence('pretokenizers', [{type: 'WhitespaceSplit'}, {type: 'Punctuation', behavior: 'Isolated'}, {type: 'Digits', individual_digits: false}]), added: [end]},
    {prefix: '##'}, {continuing_subword_prefix: '##', fuse_unk: true});

  // Shows where texts are split: the last character of a piece has another token than the same character elsewhere.
  const letters = [...'<|end> abcdefghijklmnopqrstuvwxyzABCDEHILNORSTUVWX0123456789.,;:!?\'"-_\n\t()[]{}/\\=+*&%$#@éñ世界'];
  const alphabet = ['<unk>', ...letters, ...letters.map((c) => c + '|')];
  for (const behavior of ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'])
    for (const invert of [false, true])
      all[`cut_${behavior}${invert ? '_inverted' : ''}`.toLowerCase()] = {added: [end], model: bpe(alphabet, [], {unk_token: '<unk>', end_of_word_suffix: '|'}),
        pre_tokenizer: sequence('pretokenizers', [split(regex('\\d+|[a-e]|\\b\\w\\b|^.|.$|(?<=o)n'), behavior, invert), split({String: 'ar'}, behavior)])};
  all.cut_characters = {added: [end], model: bpe(alphabet, [], {unk_token: '<unk>', end_of_word_suffix: '|'}), normalizer: replace(regex('(?m:l.)|\\h{4,}\\s?'), '-'), pre_tokenizer: split({String: ''}, 'Isolated')};
  return all;
}

// The file. Added tokens that the model lacks get the ids after those of the model.
function fileOf({added: list = [], model, normalizer = null, pre_tokenizer = null, post_processor = null, decoder = null}) {
  const vocab = model.type === 'Unigram' ? idsOf(model.vocab.map(([token]) => token)) : model.vocab;
  let next = Object.keys(vocab).length;
  const tokens = list.map((token) => ({id: vocab[token.content] ?? next++, ...token}));
  const id = (content) => tokens.find((token) => token.content === content).id;
  const processor = (part) => {
    if (!part) return null;
    if (part.type === 'Sequence') return {...part, processors: part.processors.map(processor)};
    if (part.roberta) return {type: 'RobertaProcessing', sep: [part.roberta[1], id(part.roberta[1])], cls: [part.roberta[0], id(part.roberta[0])], trim_offsets: true, add_prefix_space: true};
    if (part.bert) return {type: 'BertProcessing', sep: [part.bert[1], id(part.bert[1])], cls: [part.bert[0], id(part.bert[0])]};
    if (!part.before) return part;
    const special = (token) => ({SpecialToken: {id: token, type_id: 0}}), text = (name) => ({Sequence: {id: name, type_id: 0}});
    const names = [...part.before, ...part.behind];
    return {type: 'TemplateProcessing', single: [...part.before.map(special), text('A'), ...part.behind.map(special)],
      pair: [text('A'), text('B')], special_tokens: Object.fromEntries(names.map((name) => [name, {id: name, ids: [id(name)], tokens: [name]}]))};
  };
  const {oldMerges, ...written} = model;
  return {version: '1.0', truncation: null, padding: null, added_tokens: tokens, normalizer, pre_tokenizer, post_processor: processor(post_processor), decoder, model: written};
}

async function main(folder) {
  fs.mkdirSync(folder, {recursive: true});
  const expected = {texts, tokenizers: {}};
  for (const [name, parts] of Object.entries(await tokenizers())) {
    const json = JSON.stringify(fileOf(parts));
    fs.writeFileSync(path.join(folder, `${name}.json`), json);
    const tokenizer = Tokenizer.fromString(json);
    const results = {plain: [], special: [], decoded: [], decoded_special: []};
    for (const text of texts) {
      results.plain.push((await tokenizer.encode(text, null, {addSpecialTokens: false})).getIds());
      const ids = (await tokenizer.encode(text, null, {addSpecialTokens: true})).getIds();
      results.special.push(ids);
      results.decoded.push(ids.length ? await tokenizer.decode(ids, true) : '');
      results.decoded_special.push(ids.length ? await tokenizer.decode(ids, false) : '');
    }
    expected.tokenizers[name] = results;
    console.log(name, Object.keys(parts.model.vocab).length, 'tokens;', results.plain.reduce((sum, ids) => sum + ids.length, 0), 'in the texts');
  }
  fs.writeFileSync(path.join(folder, 'expected.json'), JSON.stringify(expected));
}

main(process.argv[2]);
