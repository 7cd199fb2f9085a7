// The country that a node's name speaks of: a flag, a code of two letters that stands alone, or a
// well-known place. It is a hint for the eye, read from the name and nothing else.

const PLACES: [RegExp, string][] = [
  [/hong\s?kong|香港/i, "HK"],
  [/taiwan|taipei|台湾|台北|臺/i, "TW"],
  [/japan|tokyo|osaka|日本|东京|大阪|東京/i, "JP"],
  [/singapore|新加坡|狮城/i, "SG"],
  [/korea|seoul|韩国|首尔|韓國/i, "KR"],
  [/united states|los angeles|seattle|san jose|new york|silicon|dallas|美国|洛杉矶|美國/i, "US"],
  [/germany|frankfurt|berlin|德国|法兰克福/i, "DE"],
  [/netherlands|amsterdam|荷兰|阿姆斯特丹/i, "NL"],
  [/united kingdom|london|英国|伦敦/i, "GB"],
  [/france|paris|法国|巴黎/i, "FR"],
  [/finland|helsinki|芬兰|赫尔辛基/i, "FI"],
  [/sweden|stockholm|瑞典/i, "SE"],
  [/canada|toronto|加拿大|多伦多/i, "CA"],
  [/australia|sydney|澳大利亚|悉尼/i, "AU"],
  [/india|mumbai|印度/i, "IN"],
  [/turkey|istanbul|土耳其/i, "TR"],
  [/russia|moscow|俄罗斯|莫斯科/i, "RU"],
  [/switzerland|zurich|瑞士/i, "CH"],
];
const CODES = new Set(
  "AE AR AT AU BE BG BR CA CH CL CN CZ DE DK EE ES FI FR GB HK HU ID IE IL IN IR IS IT JP KR KZ LT LU LV MX MY NL NO NZ PH PL PT RO RU SE SG TH TR TW UA UK US VN ZA".split(" "),
);
const FLAG = /([\u{1f1e6}-\u{1f1ff}])([\u{1f1e6}-\u{1f1ff}])/u;
const FIRST_FLAG_LETTER = 0x1f1e6;

/** The country's two letters, or none. */
export function countryOf(name: string): string | null {
  const flag = FLAG.exec(name);
  if (flag?.[1] && flag[2]) {
    const letter = (symbol: string) => String.fromCharCode(65 + (symbol.codePointAt(0) ?? 0) - FIRST_FLAG_LETTER);
    return letter(flag[1]) + letter(flag[2]);
  }
  for (const [word] of name.matchAll(/(?<![A-Za-z])[A-Z]{2}(?![A-Za-z])/g)) {
    if (CODES.has(word)) return word === "UK" ? "GB" : word;
  }
  return PLACES.find(([pattern]) => pattern.test(name))?.[1] ?? null;
}

/** The name without the flags, which the badge already says. */
export function withoutFlag(name: string): string {
  const rest = name.replace(/[\u{1f1e6}-\u{1f1ff}]{2}/gu, "").trim();
  return rest || name;
}
