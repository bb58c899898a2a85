// What remains of a translation when its text is changed, so that only the change is translated again.

/** Return where a sentence ends in its text. */
export const endOf = (sentence) => sentence.start + sentence.source.length;

function commonStart(a, b) {
  const shorter = Math.min(a.length, b.length);
  let count = 0;
  while (count < shorter && a.charCodeAt(count) === b.charCodeAt(count)) count += 1;
  return count;
}

function commonEnd(a, b, most) {
  let count = 0;
  while (count < most && a.charCodeAt(a.length - 1 - count) === b.charCodeAt(b.length - 1 - count)) count += 1;
  return count;
}

/**
 * Return {head, tail, start, end}: the sentences before and after a change, and which part of the text is between them.
 *
 * `former` is {text, head, tail}: the text before the change, its first sentences without a gap, and its last ones. The
 * sentences beside the change are not kept, since it may move their ends, and none that no white space separates from
 * it, since the server may add a space there.
 */
export function unchanged(text, former) {
  const same = commonStart(text, former.text);
  const ending = commonEnd(text, former.text, Math.min(text.length, former.text.length) - same);
  const gap = former.head.findIndex((sentence) => sentence.start === null || endOf(sentence) > same);
  const head = former.head.slice(0, Math.max(0, (gap < 0 ? former.head.length : gap) - 1));
  while (head.length && !/\s/.test(text.charAt(endOf(head.at(-1))))) head.pop();
  const first = former.text.length - ending;
  const change = former.tail.findLastIndex((sentence) => sentence.start === null || sentence.start < first);
  const tail = former.tail.slice(change + 2);
  while (tail.length && !/\s/.test(former.text.charAt(tail[0].start - 1))) tail.shift();
  const moved = text.length - former.text.length;
  return {
    head,
    tail,
    start: head.length ? endOf(head.at(-1)) : 0,
    end: tail.length ? tail[0].start + moved : text.length,
    moved,
  };
}
